"""What a function's code reads of Python: names, attributes and items, as chains, and where in the code each begins.

In: a code object. Out: Reads by the offset of the instruction before which they can be looked up. Nothing is run: the
instructions are followed with a stack of what is known of each operand; where they do not tell, a chain ends.
"""

from __future__ import annotations

import dis
from dataclasses import dataclass
from types import CodeType
from typing import Any

# how what a chain leads to is used, the weakest first
TARGET, STORE, ALIAS, CALL, VALUE = range(5)
# it is replaced, something is put into it, it is given a name, its method is called, anything else

NOTHING = ("RESUME", "NOP", "CACHE", "EXTENDED_ARG", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "NOT_TAKEN")


@dataclass(frozen=True)
class Read:
    """A chain: a root, then attributes ("attribute", name) and items ("item", key), or ("attribute at", Read) and
    ("item at", Read) where the code computes which.

    root: global, free (a variable of a function around), local, or result (of the call that has just returned).
    """

    root: str
    name: str
    steps: tuple[tuple[str, Any], ...]
    use: int

    def __str__(self) -> str:
        return self.name + "".join(map(written, self.steps))


def written(step: tuple[str, Any]) -> str:
    """A step as Python writes it."""
    kind, key = step
    return f".{key}" if kind.startswith("attribute") else f"[{key!r}]" if kind == "item" else f"[{key}]"


class _Operand:
    """Something on the stack: a chain that begins at an offset, a constant, or unknown."""

    def __init__(self, offset: int = -1, root: str = "", name: str = "", steps: Any = (), constant: Any = None) -> None:
        self.offset, self.root, self.name, self.steps, self.constant = offset, root, name, steps, constant
        self.use = -1
        self.goes_on = False

    def used(self, how: int) -> None:
        self.use = max(self.use, how)

    def then(self, kind: str, key: Any) -> _Operand:
        self.goes_on = True
        return _Operand(self.offset, self.root, self.name, (*self.steps, (kind, key)))

    def read(self) -> Read:
        use = VALUE if self.use < 0 and not self.goes_on else self.use
        return Read(self.root, self.name, self.steps, use)


def reads_of(code: CodeType) -> dict[int, tuple[Read, ...]]:
    """The chains of a code object, by the offset of the instruction after that which loads their root."""
    follower = _Follower(code)
    instructions = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    for k, instruction in enumerate(instructions):
        following = instructions[k + 1].offset if k + 1 < len(instructions) else instruction.offset
        follower.follow(instruction, following)
    follower.forget()
    found: dict[int, list[Read]] = {}
    for operand in follower.chains:
        if not operand.goes_on or operand.use > -1:
            read = operand.read()
            if read not in found.setdefault(operand.offset, []):
                found[operand.offset].append(read)
    return {offset: tuple(reads) for offset, reads in found.items()}


def asks_which(code: CodeType) -> bool:
    """Whether code may ask which object something is, and not what value it has: `is` beside no constant, `in`, id()."""
    before = ""
    for i in dis.get_instructions(code):
        if i.opname == "CONTAINS_OP" or (i.opname == "IS_OP" and not before.startswith("LOAD_CONST")):
            return True
        if i.opname.startswith("LOAD_") and i.argval in ("id", "is_", "is_not"):
            return True
        before = i.opname
    return False


class _Follower:
    def __init__(self, code: CodeType) -> None:
        self.free = frozenset(code.co_freevars)
        self.stack: list[_Operand] = []
        self.chains: list[_Operand] = []

    def forget(self) -> None:
        for operand in self.stack:
            operand.used(VALUE)
        self.stack.clear()

    def pop(self, how: int = VALUE) -> _Operand:
        operand = self.stack.pop() if self.stack else _Operand()
        if how > -1:
            operand.used(how)
        return operand

    def push(self, operand: _Operand) -> None:
        if operand.root:
            self.chains.append(operand)
        self.stack.append(operand)

    def load(self, offset: int, root: str, name: str) -> None:
        self.push(_Operand(offset, root, name))

    def variable(self, name: str) -> str:
        return "free" if name in self.free else "local"

    def follow(self, i: dis.Instruction, following: int) -> None:
        """One instruction; `following` is where the next one is."""
        name = i.opname
        if i.is_jump_target:
            self.forget()
        if name in NOTHING:
            return
        if name == "LOAD_GLOBAL":
            self.load(following, "global", i.argval)
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            self.load(following, self.variable(i.argval), i.argval)
        elif name.startswith("LOAD_FAST") or name == "STORE_FAST_LOAD_FAST":
            names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
            if name == "STORE_FAST_LOAD_FAST":
                self.pop(ALIAS)
                names = names[1:]
            for local in names:
                self.load(following, "local", local)
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self.push(_Operand(constant=(i.argval,)))
        elif name == "PUSH_NULL":
            self.push(_Operand())
        else:
            self.operate(i, following)

    def operate(self, i: dis.Instruction, following: int) -> None:
        name = i.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            self.attribute(i.argval)
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and i.argrepr == "[]"):
            self.item()
        elif name.startswith("CALL"):
            self.call(i.arg or 0 if name == "CALL" else -1, following)
        elif name == "BINARY_OP":
            self.pop()
            self.pop()
            self.push(_Operand())
        elif name == "COPY":
            self.stack.append(self.stack[-i.arg] if i.arg and i.arg <= len(self.stack) else _Operand())
        elif name == "SWAP" and i.arg and i.arg <= len(self.stack):
            self.stack[-1], self.stack[-i.arg] = self.stack[-i.arg], self.stack[-1]
        else:
            self.store(i)

    def store(self, i: dis.Instruction) -> None:
        name = i.opname
        if name in ("STORE_FAST", "STORE_FAST_STORE_FAST"):
            for _ in range(1 if name == "STORE_FAST" else 2):
                self.pop(ALIAS)
        elif name in ("STORE_ATTR", "DELETE_ATTR"):
            self.pop(STORE)
            if name == "STORE_ATTR":
                self.pop()
        elif name in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            self.pop()
            self.pop(STORE)
            if name == "STORE_SUBSCR":
                self.pop()
        elif name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"):
            root = "global" if name.endswith("GLOBAL") else self.variable(i.argval)
            place = _Operand(i.offset, root, i.argval)
            place.used(TARGET)
            self.chains.append(place)
            if name.startswith("STORE"):
                self.pop(ALIAS)
        else:
            self.forget()

    def attribute(self, name: str) -> None:
        owner = self.pop(-1)
        self.push(owner.then("attribute", name) if owner.root else _Operand())

    def call(self, count: int, following: int) -> None:
        """A call with that many arguments; of getattr, hasattr, vars and len it is known what they read."""
        found = self.stack[-count:] if 0 < count < len(self.stack) else []
        functions = {o.name for o in self.stack[-count - 2 : -count] if o.root == "global" and not o.steps}
        owner = found[0] if found else _Operand()
        if owner.root and functions & {"getattr", "hasattr"} and 2 <= count <= 3:
            kind, key = ("attribute", found[1].constant) if found[1].constant else ("attribute at", (found[1].read(),))
            if found[1].constant or found[1].root:
                chain = owner.then(kind, key[0])
                self.forget()
                self.push(chain)
                return
        elif owner.root and functions & {"vars", "len"} and count == 1:
            chain = owner.then("attribute", "__dict__" if "vars" in functions else "__len__")
            self.forget()
            self.push(chain)
            return
        self.forget()
        self.load(following, "result", "")

    def item(self) -> None:
        key, owner = self.pop(), self.pop(-1)
        if owner.root and key.constant is not None:
            self.push(owner.then("item", key.constant[0]))
        elif owner.root and key.root:
            self.push(owner.then("item at", key.read()))
        else:
            owner.used(VALUE)
            self.push(_Operand())
