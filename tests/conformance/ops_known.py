"""What PyTorch's table finds that is not as in PyTorch, with the reason: differences on purpose, and what is still to come.

An entry that passes after all is an error of the test, so that these lists only get shorter.
"""

from __future__ import annotations

# entries that differ on purpose, by the name of the entry: the checks that differ, and why
DIFFERENT: dict[str, tuple[tuple[str, ...], str]] = {
    "cov": (
        ("second",),
        "second derivatives by float32 weights of a float64 matrix: PyTorch rounds them to float32 on the way",
    ),
}

# entries that are there, and not right in every check
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "norm_nuc": (("value", "method", "out"), "the nuclear norm wants singular values"),
    "nn_functional_conv1d": (("errors",), "a bias of another dtype is taken"),
    "nn_functional_conv2d": (("errors",), "a bias of another dtype is taken"),
    "nn_functional_conv3d": (("errors",), "a bias of another dtype is taken"),
    "nn_functional_conv_transpose3d": (("second",), "large dilations: the host runs out of memory"),
}

# entries whose random draws, or sizes, make a sample take long: left out of the tenth
SLOW = frozenset(("nn_functional_max_pool2d", "nn_functional_max_pool3d", "nn_functional_conv_transpose3d"))
