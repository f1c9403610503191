"""The functions of torch.nn.modules.utils that programs use to load state dicts."""

from __future__ import annotations

from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the names of a state dict, in place: for example "module." of DataParallel.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    formats: Any = getattr(state_dict, "_metadata", None)
    for key in list(formats or ()):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            formats[key[len(prefix) :]] = formats.pop(key)
