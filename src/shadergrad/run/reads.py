"""Finds the reads in a function's bytecode: chains of names, attributes and items, and the instruction at which each begins.

In: a code object. Out: Reads by the offset of the instruction before which they can be looked up. Nothing is executed: an abstract
interpretation follows the stack, with what is known of each operand. If an operand is unknown, the chain ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

from ..cpython import Instruction, instructions_of

# uses of the value at the end of a chain, the weakest first
TARGET, STORE, ALIAS, WHICH, CALL, VALUE = range(6)
# it is replaced, its contents are replaced, it is assigned to a name, its identity is compared, its method is called, all other uses

OF_ONE = {"vars": "__dict__", "len": "__len__", "type": "__class__"}  # functions, and the attribute that they read
LOADS = ("global", "free", "local", "attribute", "constant", "other")  # kinds of instructions that may load a name


@dataclass(frozen=True)
class Read:
    """A chain: a root, then attributes ("attribute", name) and items ("item", key), or ("attribute at", Read) and
    ("item at", Read) if the name or key is computed.

    root: global, free (a closure variable), local, or result (of the call that has just returned).
    """

    root: str
    name: str
    steps: tuple[tuple[str, Any], ...]
    use: int

    def __str__(self) -> str:
        return self.name + "".join(map(written, self.steps))


def written(step: tuple[str, Any]) -> str:
    """A step of a chain as Python source."""
    kind, key = step
    return f".{key}" if kind.startswith("attribute") else f"[{key!r}]" if kind == "item" else f"[{key}]"


class _Operand:
    """An entry of the abstract stack: a chain that begins at an offset, a constant, or unknown."""

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
    """The chains of a code object, by the offset of the instruction after the one that loads their root."""
    follower = _Follower()
    for instruction in instructions_of(code):
        follower.follow(instruction)
    follower.forget()
    found: dict[int, list[Read]] = {}
    for operand in follower.chains:
        if not operand.goes_on or operand.use > -1:
            read = operand.read()
            if read not in found.setdefault(operand.offset, []):
                found[operand.offset].append(read)
    return {offset: tuple(reads) for offset, reads in found.items()}


def asks_which(code: CodeType) -> bool:
    """Whether code may compare identities instead of values: `is` with a non-constant, `in`, id()."""
    before = ""
    for i in instructions_of(code):
        if i.kind == "contains" or (i.kind == "identity" and before != "constant"):
            return True
        if i.kind in LOADS and i.argument in ("id", "is_", "is_not"):
            return True
        before = i.kind
    return False


class _Follower:
    def __init__(self) -> None:
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

    def follow(self, i: Instruction) -> None:
        """Interpret one instruction."""
        if i.is_target:
            self.forget()
        match i.kind:
            case "nothing":
                pass
            case "global" | "free" | "local":
                self.load(i.following, i.kind, i.argument)
            case "constant":
                self.push(_Operand(constant=(i.argument,)))
            case "attribute":
                self.attribute(i.argument)
            case "item":
                self.item()
            case "call":
                self.call(i.argument, i.following)
            case _:
                self.operate(i)

    def operate(self, i: Instruction) -> None:
        match i.kind:
            case "unknown":
                self.push(_Operand())
            case "binary":
                self.pop()
                self.pop()
                self.push(_Operand())
            case "identity":
                a, b = self.pop(-1), self.pop(-1)
                how = (
                    WHICH if a.constant is b.constant is None else ALIAS
                )  # comparing with a constant asks for its value only, not for an identity
                a.used(how)
                b.used(how)
                self.push(_Operand())
            case "copy":
                self.stack.append(self.stack[-i.argument] if 0 < i.argument <= len(self.stack) else _Operand())
            case "swap" if 0 < i.argument <= len(self.stack):
                self.stack[-1], self.stack[-i.argument] = self.stack[-i.argument], self.stack[-1]
            case "named":
                self.pop(ALIAS)
            case _:
                self.store(i)

    def store(self, i: Instruction) -> None:
        """Interpret an instruction that stores or deletes. After any other unknown instruction the stack is unknown."""
        what, _, where = i.kind.partition(" ")
        if where == "attribute":
            self.pop(STORE)
        elif where == "item":
            self.pop()
            self.pop(STORE)
        elif where:
            place = _Operand(i.offset, where, i.argument)
            place.used(TARGET)
            self.chains.append(place)
        else:
            self.forget()
        if what == "set":
            self.pop(VALUE if where in ("attribute", "item") else ALIAS)

    def attribute(self, name: str) -> None:
        owner = self.pop(-1)
        self.push(owner.then("attribute", name) if owner.root else _Operand())

    def call(self, count: int, following: int) -> None:
        """Interpret a call with that many arguments. The reads of getattr, hasattr and the functions in OF_ONE are known."""
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
        elif owner.root and functions & OF_ONE.keys() and count == 1:
            chain = owner.then("attribute", OF_ONE[next(iter(functions & OF_ONE.keys()))])
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
