"""Writes the function that recognises an operator of a recorded sequence, and makes its results again.

In: an entry (entries.py), with the descriptions of its arguments. Out: `replay(run, args, kwargs)`, which returns results like the recorded
ones, whose values the run promises, or MISS if the arguments differ; then it has changed nothing. The source is written for the number and
kinds of the arguments and results, without a loop or a test that the entry has settled. Entries of one form share compiled code: what they
compare with are the constants of a closure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from . import private
from .entries import Entry, Given, Items, Many, Number, Plain, Same, Seen, differs, host_number
from .storage import Unlike, laid, number, outside, promise_all, promised

Replay = Callable[[Any, Any, Any], Any]
MISS = object()
FEW = 6  # tensors in a list, or results, that are written one by one
_THE_SAME: dict[str, Any] = {  # for every entry
    "MISS": MISS,
    "Unlike": Unlike,
    "number": number,
    "outside": outside,
    "laid": laid,
    "promised": promised,
    "promise_all": promise_all,
    "offset_of": torch.Tensor.storage_offset,
    "new_tensor": private.new_tensor,
    "with_meta": private.with_meta,
    "set_": private.set_,
}


def _is_other(a: Any, e: Any) -> bool:
    """Whether an argument that is not a tensor of the device differs from the recorded one. Raises Unlike for most tensors of the host."""
    return differs(host_number(a) if isinstance(a, torch.Tensor) else a, e)


def _float_of(a: Any) -> float:
    """An argument that is a number; it may be another than before. Raises Unlike for anything else."""
    if isinstance(a, torch.Tensor):
        a = host_number(a)
    if type(a) is not float:
        raise Unlike
    return a


def _repeated(a: Any, length: int) -> float:
    """The number in a list of equal ones. Raises Unlike for another list."""
    if not isinstance(a, (list, tuple)) or len(a) != length or a.count(a[0]) != length:
        raise Unlike
    if not all(type(x) is float for x in a):
        raise Unlike
    return a[0]


_THE_SAME.update(is_other=_is_other, float_of=_float_of, repeated=_repeated)


def replay_of(entry: Entry, positional: Sequence[Any], named: dict[str, Any]) -> Replay:
    """The function that replays an entry. positional, named: the descriptions of its arguments."""
    writer = _Writer(entry)
    source = writer.source(positional, named)
    return _compiled(source, tuple(writer.constants))(*writer.constants.values())


@functools.lru_cache(maxsize=2048)
def _compiled(source: str, constants: tuple[str, ...]) -> Callable[..., Replay]:
    """The function that makes a replay of its constants."""
    body = "".join(f"    {line}\n" for line in source.splitlines())
    namespace = dict(_THE_SAME)
    exec(
        compile(f"def made({', '.join(constants)}):\n{body}    return replay\n", "<replay of an operator>", "exec"),
        namespace,
    )
    return namespace["made"]


class _Writer:
    """What has been written of a replay. constants: the values in its closure, by name.

    tensors, cells: expressions of the tensors among the arguments and of their cells, one each; rows: the same tensors as arguments of a call, where a
    list is one item. fresh: the names of the values from outside that come for the first time, by place; new: the same, where a list is one item.
    taken: what the run appends to its inputs, in order. lists: the cells of long lists and their number, by the number of the first.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.constants: dict[str, Any] = {"entry": entry}
        self.lines: list[str] = []
        self.tensors: list[str] = []
        self.cells: list[str] = []
        self.rows: list[str] = []
        self.fresh: dict[int, str] = {}
        self.new: list[str] = []
        self.taken: list[str] = []
        self.lists: dict[int, tuple[str, int]] = {}
        self.known = entry.before.inputs if entry.before is not None else 0

    def source(self, positional: Sequence[Any], named: dict[str, Any]) -> str:
        """The whole. For y = torch.add(x, w, alpha=2), where an operator before made x, and w comes from outside:

        def replay(run, args, kwargs):
            if len(args) != 2 or len(kwargs) != 1: return MISS
            a0, a1, = args
            try:
                cell0 = a0.untyped_storage().cell
                if cell0.run is not run or cell0.place != k1: return MISS
                cell1 = a1.untyped_storage().cell
                node1 = cell1._node if cell1.run is None and cell1._value is None else outside(cell1, run)
                if node1.shape != k2 or node1.dtype is not k3 or node1.device != run.device: return MISS
                b0 = kwargs['alpha']
                if b0 is not k4 and (type(b0) is not k5 or b0 != k4) and is_other(b0, k4): return MISS
                if a0.storage_offset() != k6 or a1.storage_offset() != k7: return MISS
                if not (entry.check(a0, a1) or entry.are_laid_out([a0, a1])): return MISS
                new = {node1}
                if len(new) != 1 or not run.taken.isdisjoint(new): return MISS
            except (AttributeError, KeyError, Unlike): return MISS
            run.taken |= new
            run.inputs += [node1]
            run.at = entry
            r0 = new_tensor(k8, k9)
            s0 = r0.untyped_storage()
            s0.cell = promised(run, k10)
            with_meta(True)
            try:
                set_(r0, s0, 0, k8, k11)
            finally: with_meta(False)
            return r0
        """
        self._line("def replay(run, args, kwargs):", 0)
        self._miss_if(
            f"len(args) != {len(positional)} or " + (f"len(kwargs) != {len(named)}" if named else "kwargs"), 1
        )
        names = [f"a{k}" for k in range(len(positional))]
        if names:
            self._line(f"{', '.join([*names, ''])}= args", 1)
        self._line("try:", 1)
        if not names and not named:
            self._line("pass")
        for name, spec in zip(names, positional, strict=True):
            self._argument(name, spec)
        for k, (word, spec) in enumerate(named.items()):
            self._line(f"b{k} = kwargs[{word!r}]")
            self._argument(f"b{k}", spec)
        self._layouts()
        self._new_inputs()
        self._line("except (AttributeError, KeyError, Unlike): return MISS", 1)
        if self.new:
            self._line("run.taken |= new", 1)
        if self.taken:
            self._line(f"run.inputs += [{', '.join(self.taken)}]", 1)
        self._line("run.at = entry", 1)
        self._promises()
        self._results()
        return "\n".join(self.lines)

    def _line(self, text: str, indent: int = 2) -> None:
        self.lines.append("    " * indent + text)

    def _miss_if(self, condition: str, indent: int = 2) -> None:
        self._line(f"if {condition}: return MISS", indent)

    def _constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    # --- arguments

    def _argument(self, name: str, spec: Any) -> None:
        """Compare an argument with its description."""
        kind = type(spec)
        if kind is Seen:
            self._tensor(name, spec)
        elif kind is Many:
            self._list(name, spec.items)
        elif kind is Number:
            self._line(f"{name} = float_of({name})")
            self.taken.append(f"number({name})")
        elif kind is Same:
            self._line(f"{name} = repeated({name}, {spec.length})")
            self._argument(name, spec.item)
        else:
            wanted, its = self._constant(spec), self._constant(type(spec))
            zero = f" or not {name}" if kind is float else ""  # 0.0 is not -0.0
            self._miss_if(
                f"{name} is not {wanted} and (type({name}) is not {its} or {name} != {wanted}{zero}) and is_other({name}, {wanted})"
            )

    def _tensor(self, name: str, spec: Seen) -> None:
        k = len(self.cells)
        cell, node = f"cell{k}", f"node{k}"
        self._line(f"{cell} = {name}.untyped_storage().cell")
        self.tensors.append(name)
        self.rows.append(name)
        self.cells.append(cell)
        if spec.place >= 0:
            self._miss_if(f"{cell}.run is not run or {cell}.place != {self._constant(spec.place)}")
            return
        self._line(f"{node} = {_node_of(cell)}")
        if -1 - spec.place < self.known:
            self._miss_if(f"{node} is not run.inputs[{self._constant(-1 - spec.place)}]")
        elif spec.place in self.fresh:
            self._miss_if(f"{node} is not {self.fresh[spec.place]}")
        else:
            shape, dtype = self._constant(spec.own_shape), self._constant(spec.own_dtype)
            self._miss_if(f"{node}.shape != {shape} or {node}.dtype is not {dtype} or {node}.device != run.device")
            self.fresh[spec.place] = node
            self.new.append(node)
            self.taken.append(node)

    def _list(self, name: str, items: Sequence[Any]) -> None:
        self._miss_if(f"not isinstance({name}, (list, tuple)) or len({name}) != {len(items)}")
        fresh = [e.place for e in items if type(e) is Seen and -1 - e.place >= self.known]
        is_plain = (
            all(type(e) is Seen for e in items) and len({*fresh}) == len(fresh) and self.fresh.keys().isdisjoint(fresh)
        )
        if is_plain and len(items) > FEW:
            self._long_list(name, items)
            return
        names = [f"{name}_{k}" for k in range(len(items))]
        self._line(f"{', '.join([*names, ''])}= {name}")
        for part, spec in zip(names, items, strict=True):
            self._argument(part, spec)

    def _long_list(self, name: str, specs: Sequence[Seen]) -> None:
        """Compare a list of tensors as a whole: those of the sequence, those from outside that came before, and new ones."""
        first = len(self.cells)
        cells = f"cells{first}"
        self.lists[first] = cells, len(specs)
        self._line(f"{cells} = [x.untyped_storage().cell for x in {name}]")
        self.rows.append(f"*{name}")
        self.tensors += [f"{name}[{k}]" for k in range(len(specs))]
        self.cells += [f"{cells}[{k}]" for k in range(len(specs))]
        kinds = [0 if e.place >= 0 else 1 if -1 - e.place < self.known else 2 for e in specs]
        for kind in sorted({*kinds}):
            which = [k for k, other in enumerate(kinds) if other == kind]
            part, some = [specs[k] for k in which], f"cells{first}_{kind}"
            whole = len(which) == len(specs)
            self._line(f"{some} = {cells}" if whole else f"{some} = [{cells}[k] for k in {self._constant(which)}]")
            nodes = f"nodes{first}_{kind}"
            if kind == 0:
                places = self._constant([e.place for e in part])
                self._miss_if(
                    f"[c.run for c in {some}].count(run) != {len(part)} or [c.place for c in {some}] != {places}"
                )
                continue
            self._line(f"{nodes} = [{_node_of('c')} for c in {some}]")
            if kind == 1:
                numbers = self._constant([-1 - e.place for e in part])
                self._miss_if(f"{nodes} != [run.inputs[k] for k in {numbers}]")
            else:
                wanted = self._constant([(e.own_shape, e.own_dtype) for e in part])
                self._miss_if(f"[(n.shape, n.dtype) for n in {nodes}] != {wanted}")
                self._miss_if(f"[n.device for n in {nodes}].count(run.device) != {len(part)}")
                self.fresh.update({e.place: f"{nodes}[{k}]" for k, e in enumerate(part)})
                self.new.append(f"*{nodes}")
                self.taken.append(f"*{nodes}")

    def _layouts(self) -> None:
        """Compare the layouts of all tensors."""
        if not self.tensors:
            return
        offsets, some = self.entry.offsets, ", ".join(self.rows)
        if self.lists:
            self._miss_if(f"[*map(offset_of, [{some}])] != {self._constant(offsets)}")
        else:
            pairs = zip(self.tensors, offsets, strict=True)
            self._miss_if(" or ".join([f"{x}.storage_offset() != {self._constant(offset)}" for x, offset in pairs]))
        self._miss_if(f"not (entry.check({some}) or entry.are_laid_out([{some}]))")

    def _new_inputs(self) -> None:
        """Refuse a value that is an input already, or twice among the new ones: it would be written as one and read as another."""
        if self.new:
            self._line(f"new = {{{', '.join(self.new)}}}")
            self._miss_if(f"len(new) != {len(self.fresh)} or not run.taken.isdisjoint(new)")

    # --- results

    def _promises(self) -> None:
        """Promise the values that the operator writes to its arguments."""
        written = self.entry.written
        if len(written) <= FEW:
            for k, place in written:
                self._line(f"{self.cells[k]}.promise(run, {self._constant(place)})", 1)
        else:
            cells, places = (
                ", ".join([self.cells[k] for k, _ in written]),
                self._constant([place for _, place in written]),
            )
            self._line(f"promise_all(({cells}), run, {places})", 1)

    def _results(self) -> None:
        """Make the results, and return them in the recorded form."""
        given = [g for g in _flat(self.entry.given) if type(g) is Given]
        if len(given) > FEW:
            self._line(f"r = [laid(run, *row) for row in {self._constant([tuple(g) for g in given])}]", 1)
            names = iter([f"r[{k}]" for k in range(len(given))])
        else:
            names = iter([f"r{k}" for k in range(len(given))])
            self._few_results(given)
        results = [self._result(g, names) for g in self.entry.given]
        if self.entry.kind is None:
            self._line(f"return {results[0] if results else None}", 1)
        else:
            items = "".join([f"{result}, " for result in results])
            self._line(f"return [{items}]" if self.entry.kind is list else f"return ({items})", 1)

    def _few_results(self, given: Sequence[Given]) -> None:
        sets: list[str] = []
        for k, (place, shape, stride, dtype) in enumerate(given):
            size = self._constant(shape)
            self._line(f"r{k} = new_tensor({size}, {self._constant(dtype)})", 1)
            self._line(f"s{k} = r{k}.untyped_storage()", 1)
            self._line(f"s{k}.cell = promised(run, {self._constant(place)})", 1)
            sets.append(f"set_(r{k}, s{k}, 0, {size}, {self._constant(stride)})")
        if sets:
            self._line("with_meta(True)", 1)
            self._line("try:", 1)
            for line in sets:
                self._line(line)
            self._line("finally: with_meta(False)", 1)

    def _result(self, g: Any, names: Iterator[str]) -> str:
        """The expression of a result."""
        if type(g) is Given:
            return next(names)
        if type(g) is Items:
            return f"[{', '.join([self._result(item, names) for item in g.items])}]"
        return self._constant(g.value) if type(g) is Plain else self.tensors[g]


def _node_of(cell: str) -> str:
    """The expression of the node in a cell, most often without a call."""
    return f"{cell}._node if {cell}.run is None and {cell}._value is None else outside({cell}, run)"


def _flat(given: Sequence[Any]) -> Iterator[Any]:
    for g in given:
        if type(g) is Items:
            yield from _flat(g.items)
        else:
            yield g
