"""All code that depends on CPython's internals, and a test of each assumption at import.

Compiled steps use the interpreter's internals: they count references to tensors, trace the user's code instruction by instruction
during a capture, and find functions by their code objects. The language guarantees none of that, and versions differ. Each section
hides the differences of one subject. `ASSUMPTIONS`, at the end, tests each assumption by a small experiment. If one fails, `refuted`
names it, sg.compile runs functions uncompiled and warns once, and `references` returns a number so large that callers copy memory
instead of overwriting it.

Differences between versions: 3.12 asks for events of instructions before tracing begins. 3.13 ignores the request at a call, and
loads two variables by one instruction. From 3.14 on neither a variable on the stack nor a parameter needs to count as a reference.
"""

from __future__ import annotations

import ctypes
import dis
import gc
import sys
import warnings
import weakref
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import islice
from types import CodeType, FrameType, FunctionType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from .errors import CompileError

T = TypeVar("T")

# -- references

ASKING = 1  # the reference that asking adds itself, to an attribute or an item that is asked about


def _uncounted(thing: Any) -> int:
    """Too many: what cannot be counted may be held by anyone."""
    return sys.maxsize


# How many references there are to something, with that of ASKING. To be asked of an attribute or an item, as in
# references(tensor._node), never of a variable: whether that counts on its way here differs between versions.
references: Callable[[Any], int] = getattr(sys, "getrefcount", _uncounted)


def collect_cycles() -> None:
    """Run the garbage collector. Only objects in reference cycles need it: others are freed with their last reference."""
    gc.collect()


def holders_of(thing: Any, but: Any) -> set[str]:
    """The types of the objects that refer to a thing, without local variables of running functions and without `but`."""
    return {type(r).__name__ for r in gc.get_referrers(thing) if r is not but and not isinstance(r, FrameType)}


def living(kind: type[T]) -> Iterator[T]:
    """The live objects of a type that the garbage collector tracks."""
    # by type(): isinstance asks a proxy, whose object may be gone
    return (thing for thing in gc.get_objects() if issubclass(type(thing), kind))


# -- frames


def frame_of_caller(depth: int = 1) -> FrameType:
    """The frame of the caller of the function that calls this, or the one `depth` frames further out."""
    return sys._getframe(depth + 1)


def first_outwards(frame: FrameType | None, is_wanted: Callable[[str], object]) -> FrameType | None:
    """The first frame, from `frame` outwards, whose file is wanted."""
    while frame is not None and not is_wanted(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def frames_outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame, its caller, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def instruction_at(frame: FrameType) -> int:
    """The offset of a frame's current instruction."""
    return frame.f_lasti


def line_at(code: CodeType, instruction: int) -> int | None:
    """The line of the instruction at an offset. Takes time in proportion to the length of the function."""
    line, *_ = next(islice(code.co_positions(), instruction // 2, None), (None,))
    return line


def is_calling(frame: FrameType) -> bool:
    """Whether a frame's current instruction is a call, as it is while hasattr or getattr runs for it."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "PRECALL")


def is_importing(frame: FrameType) -> bool:
    """Whether a frame's current instruction is part of an import statement."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in (
        "IMPORT_NAME",
        "IMPORT_FROM",
        "IMPORT_STAR",
        "CALL_INTRINSIC_1",
    )


def span_at(code: CodeType, instruction: int) -> tuple[int, int, int, int] | None:
    """Where the instruction at an offset stands in its file: first line, last line, first column, last column."""
    place = next(islice(code.co_positions(), instruction // 2, None), None)
    if place is None or None in place:
        return None
    return place  # type: ignore[return-value]


def variable(frame: FrameType, name: str, missing: Any) -> Any:
    """The value of a local variable of a running function."""
    return frame.f_locals.get(name, missing)


# -- classes, functions and their code

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def is_made_by_class_statement(kind: type) -> bool:
    """Whether a class is made at run time, as those of Python code are."""
    return bool(kind.__flags__ & HEAP_TYPE)


def functions_with(code: CodeType) -> list[FunctionType]:
    """The existing functions with a code object."""
    return [f for f in gc.get_referrers(code) if isinstance(f, FunctionType) and f.__code__ is code]


def codes_within(code: CodeType) -> list[CodeType]:
    """The code objects of the functions that a code object defines."""
    return [c for c in code.co_consts if isinstance(c, CodeType)]


# -- instructions

Kind = Literal[
    "nothing",  # of no effect on the stack of operands
    "constant",  # load: the value
    "global",  # load: a name
    "local",
    "free",  # of a function around
    "unknown",  # push something
    "attribute",  # an attribute of the top of the stack
    "item",  # an item of the container below, at the key on top
    "call",  # with a number of arguments, or -1
    "binary",  # an operation of two
    "copy",  # the operand at that depth
    "swap",  # with the operand at that depth
    "named",  # the top of the stack becomes the value of a local variable
    "set attribute",
    "delete attribute",
    "set item",
    "delete item",
    "set global",  # a name
    "set local",  # of a variable that inner functions have too: a name
    "set free",
    "delete global",
    "delete local",
    "delete free",
    "identity",  # whether two are one
    "contains",
    "other",  # a name, if it loads one
]


class Instruction(NamedTuple):
    """An instruction by what it does, the same in all versions. An instruction of the interpreter may be several of these.

    offset, following: where it and the next one begin, as `InstructionTrace` tells of them. is_target: whether a jump leads
    there."""

    kind: Kind
    argument: Any
    offset: int
    following: int
    is_target: bool


_PLAIN: dict[str, Kind] = {
    **dict.fromkeys(("RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "NOT_TAKEN"), "nothing"),
    "LOAD_CONST": "constant",
    "LOAD_SMALL_INT": "constant",
    "LOAD_GLOBAL": "global",
    "PUSH_NULL": "unknown",
    "LOAD_ATTR": "attribute",
    "LOAD_METHOD": "attribute",
    "BINARY_SUBSCR": "item",
    "BINARY_OP": "binary",
    "COPY": "copy",
    "SWAP": "swap",
    "STORE_ATTR": "set attribute",
    "DELETE_ATTR": "delete attribute",
    "STORE_SUBSCR": "set item",
    "DELETE_SUBSCR": "delete item",
    "STORE_GLOBAL": "set global",
    "DELETE_GLOBAL": "delete global",
    "IS_OP": "identity",
    "CONTAINS_OP": "contains",
}
_OF_CELLS = {"LOAD_DEREF": "", "LOAD_CLASSDEREF": "", "STORE_DEREF": "set ", "DELETE_DEREF": "delete "}


def instructions_of(code: CodeType) -> list[Instruction]:
    """The instructions of a code, in order."""
    free = frozenset(code.co_freevars)
    decoded: list[tuple[int, bool, list[tuple[Kind, Any]]]] = []
    begins, is_target = -1, False
    for i in dis.get_instructions(code):
        if i.opname == "CACHE":
            continue
        begins = i.offset if begins < 0 else begins
        is_target = is_target or i.is_jump_target
        if i.opname == "EXTENDED_ARG":  # of the next one, which begins here
            continue
        decoded.append((begins, is_target, _meanings(i, free)))
        begins, is_target = -1, False
    following = [offset for offset, _, _ in decoded[1:]] + [offset for offset, _, _ in decoded[-1:]]
    return [
        Instruction(kind, argument, offset, after, is_target and not k)
        for (offset, is_target, meanings), after in zip(decoded, following, strict=True)
        for k, (kind, argument) in enumerate(meanings)
    ]


def _meanings(i: dis.Instruction, free: frozenset[str]) -> list[tuple[Kind, Any]]:
    name = i.opname
    if name in _OF_CELLS:
        kind: Any = _OF_CELLS[name] + ("free" if i.argval in free else "local")
        return [(kind, i.argval)]
    if name == "STORE_FAST_LOAD_FAST":
        return [("named", i.argval[0]), ("local", i.argval[1])]
    if name.startswith("LOAD_FAST"):  # also two at once, also borrowed
        return [("local", local) for local in (i.argval if isinstance(i.argval, tuple) else (i.argval,))]
    if name in ("STORE_FAST", "STORE_FAST_STORE_FAST"):
        return [("named", local) for local in (i.argval if isinstance(i.argval, tuple) else (i.argval,))]
    if name.startswith("CALL"):
        return [("call", i.arg or 0 if name == "CALL" else -1)]
    if name == "BINARY_OP" and i.argrepr == "[]":
        return [("item", None)]
    if name in ("COPY", "SWAP"):
        return [(_PLAIN[name], i.arg or 0)]
    if name in _PLAIN:
        return [(_PLAIN[name], i.argval)]
    return [("other", i.argval if name.startswith("LOAD_") else None)]


# -- following code while it runs


class InstructionTrace(Generic[T]):
    """Runs a function and tells what its code is about to do.

    points_of: asked of each frame that begins; gives by offset what to tell before the instruction there runs, or None
    where the frame is of no interest. at_point: told of these. on_return: told which frame gets what a frame of interest
    gives back. passed: the ids of codes whose frames are known to be of no interest, by far the most. A debugger or a coverage
    tool that traces goes on.
    """

    def __init__(
        self,
        points_of: Callable[[FrameType], Mapping[int, T] | None],
        at_point: Callable[[FrameType, T], None],
        on_return: Callable[[FrameType | None, Any], None],
        passed: Container[int] = (),
    ) -> None:
        self._points_of, self._at_point, self._on_return, self._passed = points_of, at_point, on_return, passed
        self._previous: Any = None

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The function's result."""
        self._previous = sys.gettrace()
        # Python 3.12 tests once, before tracing begins, whether instructions are traced
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._on_call)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(self._previous)
            sys._getframe().f_trace_opcodes = False

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        before = None
        if self._previous is None:
            if id(frame.f_code) in self._passed:
                return None
        else:
            before = self._previous(frame, event, argument)
            if sys.gettrace() != self._on_call:  # some tracers put themselves back
                sys.settrace(self._on_call)
        points = self._points_of(frame)
        if points is None:
            return before
        frame.f_trace_opcodes = True
        return self._followed(points, before)

    def _followed(self, points: Mapping[int, T], before: Any) -> Any:
        """What is told of the events in a frame. before: what another tracer follows it with."""

        def on_event(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "opcode":
                offset = frame.f_lasti
                if offset in points:
                    self._at_point(frame, points[offset])
                return on_event
            if event == "return":
                self._on_return(frame.f_back, argument)
            elif event == "line":
                frame.f_trace_opcodes = True  # Python 3.13 takes no notice of it at the call
            if before is not None:
                before = before(frame, event, argument)
            return on_event

        return on_event


# -- whether all that holds

_PROBE = (7, 8)


class _Thing:
    """What experiments are made with."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def _counts_references() -> bool:
    """An attribute that one object holds has that reference and ASKING; another object, or a variable, adds one; none
    stays when those are gone."""
    if references is _uncounted:
        return False
    owner = _Thing(_Thing(None))
    seen = [references(owner.inner)]
    other = [owner.inner]
    seen.append(references(owner.inner))
    held = owner.inner
    seen += [references(owner.inner), references(other[0]) if held is not None else 0]
    del held
    other.clear()
    seen.append(references(owner.inner))
    return [count - ASKING for count in seen] == [1, 2, 3, 3, 1]


def _lets_go_at_once() -> bool:
    thing = _Thing(None)
    known = weakref.ref(thing)
    was_there = known() is thing
    del thing
    return was_there and known() is None


def _sample() -> FunctionType:
    around = _Thing(_PROBE)

    def sample(owner: Any) -> Any:
        found = owner.inner
        found = found[0]
        found.inner = len(_PROBE)
        return around

    return sample


_SAMPLE: list[tuple[Kind, Any]] = [
    ("local", "owner"),
    ("attribute", "inner"),
    ("named", "found"),
    ("local", "found"),
    ("constant", 0),
    ("item", None),
    ("named", "found"),
    ("global", "len"),
    ("global", "_PROBE"),
    ("call", 1),
    ("local", "found"),
    ("set attribute", "inner"),
    ("free", "around"),
    ("other", None),
]


def _knows_instructions() -> bool:
    found = [i for i in instructions_of(_sample().__code__) if i.kind not in ("nothing", "unknown")]
    kinds = [i.kind for i in found]
    arguments = [i.argument for i in found if i.kind != "item"]
    return kinds == [k for k, _ in _SAMPLE] and arguments == [a for k, a in _SAMPLE if k != "item"]


def _tells_of_instructions() -> bool:
    """Of each, by the offset that dis has too, before it runs and when all before it have; and of what is given back."""
    sample = _sample()
    points = {i.offset: i.offset for i in instructions_of(sample.__code__) if i.kind != "nothing"}
    inner = _Thing(None)
    seen: list[tuple[int, Any]] = []
    given: list[Any] = []
    trace = InstructionTrace[int](
        lambda frame: points if frame.f_code is sample.__code__ else None,
        lambda frame, offset: seen.append((offset, variable(frame, "found", None))),
        lambda caller, value: given.append((value, getattr(caller, "f_code", None))),
    )
    owner = _Thing([inner])
    result = trace.run(sample, (owner,), {})
    if [offset for offset, _ in seen] != list(points) or inner.inner != len(_PROBE):
        return False
    named = [i.following for i in instructions_of(sample.__code__) if i.kind == "named"]
    values = dict(seen)
    is_current = values[named[0]] is owner.inner and values[named[-1]] is inner
    return is_current and given == [(result, InstructionTrace.run.__code__)]


def _knows_lines() -> bool:
    frame = sys._getframe()
    line = line_at(frame.f_code, frame.f_lasti)
    return line is not None and frame.f_code.co_firstlineno < line <= frame.f_lineno


def _finds_functions() -> bool:
    """That gc.get_referrers does, which goes through everything, follows from what it asks each object."""
    sample = _sample()
    return gc.is_tracked(sample) and any(held is sample.__code__ for held in gc.get_referents(sample))


def _tells_classes_apart() -> bool:
    kinds = (_Thing, CompileError, int, dict)
    return [is_made_by_class_statement(kind) for kind in kinds] == [True, True, False, False]


# -- arrays


def _told_address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _read_address(array: np.ndarray) -> int:
    """NumPy's ABI has the pointer behind the header that all objects have."""
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


def _reads_addresses() -> bool:
    """Not an assumption of compiled steps: where it does not hold, NumPy tells the address."""
    if sys.implementation.name != "cpython":  # `id` may be no address
        return False
    whole = np.zeros((3, 4))
    fixed = np.arange(2)
    fixed.flags.writeable = False
    arrays = (whole, whole[1:, ::-1], fixed, np.empty(0, np.float32), np.array(True))
    return all(_read_address(a) == _told_address(a) for a in arrays)


ASSUMPTIONS: dict[str, Callable[[], bool]] = {
    "sys.getrefcount counts every object that holds another": _counts_references,
    "an object goes as soon as nothing holds it": _lets_go_at_once,
    "the instructions that dis shows are those that are known here": _knows_instructions,
    "a trace function is told of each instruction before it runs": _tells_of_instructions,
    "an instruction has a line": _knows_lines,
    "the garbage collector finds the functions that have a code": _finds_functions,
    "a flag tells the classes of Python code from those of C": _tells_classes_apart,
}

refuted: list[str] = []  # the assumptions that do not hold here
_has_said = False


def _holds(experiment: Callable[[], bool]) -> bool:
    try:
        return experiment()
    except Exception:  # whatever another interpreter makes of it
        return False


# The address of an array's first element. NumPy needs several times as long to tell it, as it describes the whole array.
address_of: Callable[[np.ndarray], int] = _read_address if _holds(_reads_addresses) else _told_address


def examine() -> list[str]:
    """Test each assumption. Returns the failed ones and stores them in `refuted`."""
    global references, _has_said
    references = getattr(sys, "getrefcount", _uncounted)
    refuted[:] = [words for words, experiment in ASSUMPTIONS.items() if not _holds(experiment)]
    if refuted:
        references = _uncounted
    _has_said = False
    return refuted


def interpreter() -> str:
    """The name and version of the interpreter: "cpython 3.12.1"."""
    return f"{sys.implementation.name} {sys.version.split()[0]}"


def refutation() -> str:
    """The reason that steps are not compiled here, for messages."""
    return f"on {interpreter()} it does not hold that {' or that '.join(refuted)}, which compiled steps rely on"


def warn_once(stacklevel: int = 3) -> None:
    """Warn at the first call that steps run uncompiled. stacklevel: as for warnings.warn."""
    global _has_said
    if not _has_said:
        _has_said = True
        warnings.warn(
            f"steps run uncompiled: {refutation()}. Results are the same, and slower. Hint: "
            "docs/conformance-interpreters.md lists the interpreters that are tested.",
            stacklevel=stacklevel,
        )


def require() -> None:
    """Raises CompileError if an assumption failed."""
    if refuted:
        raise CompileError(f"a step cannot be captured: {refutation()}. Hint: call the function itself.")


examine()
