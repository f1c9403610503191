"""The 3x3 patch that a cell sees, row by row: 0 is the cell to the north-west, 4 the cell itself, 8 the one to the south-east."""

from __future__ import annotations

NEIGHBOURS = 9
PLACES = ("NW", "N", "NE", "W", "C", "E", "SW", "S", "SE")  # in the order of a cell's inputs


def neighbour(index: int, channels: int) -> tuple[int, int, int]:
    """(dy, dx, channel) of an input of a cell's circuit: dy and dx are -1, 0 or 1."""
    position, channel = divmod(index, channels)
    return position // 3 - 1, position % 3 - 1, channel
