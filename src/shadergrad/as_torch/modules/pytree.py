"""torch.utils._pytree: nested containers as a list of leaves and a TreeSpec. Programs may register containers of their own."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

PyTree = Any
Context = Any
KeyPath = tuple[Any, ...]
FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
UnflattenFunc = Callable[[Iterable[Any], Any], Any]


@dataclass(frozen=True)
class MappingKey:
    """The key of a value in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, parent: Any) -> Any:
        """The value there."""
        return parent[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """The position of a value in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The value there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """The attribute of an object that holds a value."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The value there."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """The functions that flatten and unflatten a container."""

    type: type
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None


SUPPORTED_NODES: dict[type, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[type, Any] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Any,
    unflatten_fn: Any,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
    **kwargs: Any,
) -> None:
    """Register a class of containers: flatten_fn(x) returns its values and a context, unflatten_fn(values, context) returns x.

    Raises ValueError for a registered class.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = serialized_type_name


def _register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, *args: Any, **kwargs: Any) -> None:
    """register_pytree_node under its former name; it ignores a registered class."""
    if cls not in SUPPORTED_NODES:
        register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


_private_register_pytree_node = _register_pytree_node


def register_dataclass(cls: type, *, field_names: Any = None, drop_field_names: Any = None, **kwargs: Any) -> None:
    """Register a dataclass, whose values are its fields."""
    import dataclasses  # imported here for a single call

    dropped = set(drop_field_names or ())
    names = list(field_names or [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped])  # type: ignore[arg-type]
    register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in names], None),
        lambda values, _: cls(**dict(zip(names, values, strict=True))),
        flatten_with_keys_fn=lambda x: ([(GetAttrKey(n), getattr(x, n)) for n in names], None),
    )


def _keyed(keys: Callable[[Any], Iterable[Any]], flatten: Any) -> Any:
    def flatten_with_keys(x: Any) -> tuple[list[Any], Any]:
        values, context = flatten(x)
        return list(zip(keys(x), values, strict=True)), context

    return flatten_with_keys


def _builtin(cls: type, flatten: Any, unflatten: Any, keys: Any) -> None:
    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=_keyed(keys, flatten))


def _mapping_keys(x: Any) -> list[Any]:
    return [MappingKey(k) for k in x]


def _sequence_keys(x: Any) -> list[Any]:
    return [SequenceKey(k) for k in range(len(x))]


_builtin(dict, lambda x: (list(x.values()), list(x)), lambda v, keys: dict(zip(keys, v, strict=True)), _mapping_keys)
_builtin(
    OrderedDict,
    lambda x: (list(x.values()), list(x)),
    lambda v, keys: OrderedDict(zip(keys, v, strict=True)),
    _mapping_keys,
)
_builtin(
    defaultdict,
    lambda x: (list(x.values()), (x.default_factory, list(x))),
    lambda v, c: defaultdict(c[0], zip(c[1], v, strict=True)),
    _mapping_keys,
)
_builtin(list, lambda x: (x, None), lambda v, _: list(v), _sequence_keys)
_builtin(tuple, lambda x: (list(x), None), lambda v, _: tuple(v), _sequence_keys)
_builtin(deque, lambda x: (list(x), x.maxlen), lambda v, most: deque(v, maxlen=most), _sequence_keys)
_builtin(
    namedtuple,  # type: ignore[arg-type]  # PyTorch's key for all of them
    lambda x: (list(x), type(x)),
    lambda v, kind: kind(*v),
    lambda x: [GetAttrKey(name) for name in x._fields],
)


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class is one of collections.namedtuple's."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


is_namedtuple = is_namedtuple_instance


def _kind(tree: Any) -> Any:
    """The key of a container in SUPPORTED_NODES, or the type of a leaf."""
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def _is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _kind(tree) not in SUPPORTED_NODES


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree, without its leaves."""

    type: Any
    context: Any
    children_specs: list[TreeSpec]

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of values in the outermost container."""
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether the tree is a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the values in the outermost container."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one value in the outermost container."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves. Raises ValueError for another number of them."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree "
                f"that holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(leaves))

    def _built(self, leaves: Any) -> Any:
        if self.is_leaf():
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([c._built(leaves) for c in self.children_specs], self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of a tree at the positions of this structure's leaves. Raises ValueError if the trees differ above them."""
        if self.is_leaf():
            return [tree]
        if _kind(tree) is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        values, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if self.type in (dict, OrderedDict) and set(context) == set(self.context):
            values = [tree[key] for key in self.context]
        elif context != self.context or len(values) != len(self.children_specs):
            raise ValueError(f"Node mismatch; expected {self.context!r}, but got {context!r}.")
        return [
            part
            for child, value in zip(self.children_specs, values, strict=True)
            for part in child.flatten_up_to(value)
        ]


class LeafSpec(TreeSpec):
    """The structure of a single leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self) -> str:
        return "*"


_LEAF = LeafSpec()


def treespec_leaf() -> TreeSpec:
    """The structure of a single leaf."""
    return _LEAF


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree from left to right, and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    if _is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _kind(tree)
    values, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(value, leaves, is_leaf) for value in values])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree with these leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Any = None) -> Any:
    """An iterator over the leaves of a tree."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Any = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The tree of func(leaf), or of func(leaf, ...) with the leaves at the same positions of further trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([func(*parts) for parts in zip(leaves, *(spec.flatten_up_to(r) for r in rests), strict=True)])


def tree_map_(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call func as tree_map does; returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(type_or_pred: Any) -> Callable[[Any], bool]:
    if isinstance(type_or_pred, type | tuple) or not callable(type_or_pred):
        return lambda x: isinstance(x, type_or_pred)
    return lambda x: bool(type_or_pred(x))


def map_only(type_or_pred: Any, /) -> Any:
    """A decorator that applies a function to values of a type, or that satisfy a predicate; other values are returned unchanged."""
    holds = _chosen(type_or_pred)
    return lambda func: lambda x: func(x) if holds(x) else x


def tree_map_only(type_or_pred: Any, /, func: Any, tree: Any, is_leaf: Any = None) -> Any:
    """The tree of func(leaf) for leaves of a type, or that satisfy a predicate; other leaves are unchanged."""
    return tree_map(map_only(type_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_pred: Any, /, func: Any, tree: Any, is_leaf: Any = None) -> Any:
    """Call func as tree_map_only does; returns the tree itself."""
    return tree_map_(map_only(type_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    """Whether pred holds of all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    """Whether pred holds of any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_pred: Any, /, pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    """Whether pred holds of all leaves of a type."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if _chosen(type_or_pred)(x))


def tree_any_only(type_or_pred: Any, /, pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    """Whether pred holds of any leaf of a type."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if _chosen(type_or_pred)(x))


def tree_flatten_with_path(tree: Any, is_leaf: Any = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves with their paths, and the structure of the tree."""
    found: list[tuple[KeyPath, Any]] = []
    _paths((), tree, found, is_leaf)
    return found, tree_structure(tree, is_leaf)


def _paths(path: KeyPath, tree: Any, found: list[tuple[KeyPath, Any]], is_leaf: Any) -> None:
    if _is_leaf(tree, is_leaf):
        found.append((path, tree))
        return
    node = SUPPORTED_NODES[_kind(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, value in node.flatten_with_keys_fn(tree)[0]:
        _paths((*path, key), value, found, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Any = None) -> list[tuple[KeyPath, Any]]:
    """The leaves with their paths."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The tree of func(path, leaf), or of func(path, leaf, ...) with the leaves at the same positions of further trees."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten(
        [func(path, *parts) for (path, *_), *parts in zip(found, [leaf for _, leaf in found], *others, strict=True)]
    )


def keystr(kp: KeyPath) -> str:
    """A path as text: "[0]['a'].b"."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """The part of a tree at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    """Whether a tree is a single leaf."""
    return _is_leaf(tree, is_leaf)


def _get_node_type(tree: Any) -> Any:
    return _kind(tree)


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """The leaves of a tree, each repeated for all leaves of the corresponding part of a structure; None if the two do not fit."""
    if treespec.is_leaf():
        return [tree]
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    values, context = SUPPORTED_NODES[_kind(tree)].flatten_fn(tree)
    if _kind(tree) is not treespec.type or context != treespec.context or len(values) != treespec.num_children:
        return None
    found: list[Any] = []
    for value, child in zip(values, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(value, child, is_leaf)
        if part is None:
            return None
        found += part
    return found
