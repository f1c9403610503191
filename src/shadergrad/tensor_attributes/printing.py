"""How tensors print."""

from __future__ import annotations

from typing import Any

from ..arguments import checked
from ..errors import ArgumentError
from ..tensor import reading


@checked
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print: digits after the point, elements above which a tensor is shortened, how many remain at each edge,
    characters a line. profile: 'default', 'short' (2 digits, 1000 elements) or 'full' (no shortening). sci_mode: powers of
    ten always or never. Raises ArgumentError for another profile.

    >>> sg.set_printoptions(precision=2)
    >>> sg.tensor([1.23456])
    tensor([1.23])
    >>> sg.set_printoptions(profile="default")
    """
    profiles: dict[str, dict[str, Any]] = {
        "default": {"precision": 4, "threshold": 200},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2},
        "full": {"precision": 4, "threshold": 1 << 62},
    }
    options = reading.PRINTED
    if profile is not None:
        if profile not in profiles:
            raise ArgumentError(f"set_printoptions(): profile is 'default', 'short' or 'full', not {profile!r}.")
        options.clear()
        options.update(profiles[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "max_line_width": linewidth}
    options.update({k: int(min(v, 1 << 62)) for k, v in given.items() if v is not None})
    if sci_mode is not None:
        options.pop("formatter", None)
        options.pop("suppress_small", None)
        if sci_mode:
            options["formatter"] = {"float_kind": lambda v: f"{v:.{options['precision']}e}"}
        else:
            options["suppress_small"] = True
