"""What PyTorch's table finds that is not as in PyTorch, with the reason: differences on purpose, and what is still to come.

An entry that passes after all is an error of the test, so that these lists only get shorter.
"""

from __future__ import annotations

import re

# entries that differ on purpose, by the name of the entry: the checks that differ, and why
DIFFERENT: dict[str, tuple[tuple[str, ...], str]] = {
    "cholesky_inverse": (("gradient",), "only the triangle that is read has a gradient; PyTorch gives both one"),
    "cholesky_solve": (("gradient",), "only the triangle that is read has a gradient; PyTorch gives both one"),
    "linalg_eigh": (("gradient",), "eigenvectors may have the opposite sign, and then another gradient"),
    "linalg_eigvalsh": (("second",), "equal along symmetric directions; others have no meaning"),
    "linalg_norm_subgradients_at_zero": (("second",), "second derivatives at 0 are 0, in PyTorch NaN"),
    "special_bessel_j0": (("value", "out"), "equal to SciPy's in all digits; PyTorch loses half of them near a root"),
    "special_bessel_y1": (("value", "out"), "equal to SciPy's in all digits; PyTorch loses half of them near a root"),
    "special_hermite_polynomial_he": (
        ("value", "out"),
        "float32: in one of 250 elements a sum cancels its last digits",
    ),
    "cov": (
        ("second",),
        "second derivatives with respect to float32 weights of a float64 matrix: PyTorch rounds them to float32",
    ),
}

# besides, on a GPU: what, a pattern of names, the checks that differ, and why
DIFFERENT_ON_GPUS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "fft, stft, linalg.eig": (
        "fft_.*(?<!freq)(?<!shift)|stft|linalg_eig|linalg_eigvals",
        ("value", "out"),
        "complex numbers exist on the cpu device only: the error names it",
    ),
}

# entries that are there, and not right in every check: none
WRONG: dict[str, tuple[tuple[str, ...], str]] = {}

# entries that are not there, and why
MISSING = {
    "geqrf": "LAPACK's own form of QR, for few programs",
    "ormqr": "LAPACK's own form of QR, for few programs",
    "linalg_ldl_factor": "a decomposition for few programs",
    "linalg_ldl_factor_ex": "a decomposition for few programs",
    "linalg_ldl_solve": "a decomposition for few programs",
}

# entries whose random draws, or sizes, make a sample take long: left out of the tenth
SLOW = frozenset(("nn_functional_max_pool2d", "nn_functional_max_pool3d", "nn_functional_conv_transpose3d"))


def allowed(name: str, device: str = "cpu") -> set[str]:
    """The checks of an entry that differ on purpose there, or are known to be wrong."""
    found = {check for table in (DIFFERENT, WRONG) for check in table.get(name, ((), ""))[0]}
    if device != "cpu":
        for pattern, checks, _ in DIFFERENT_ON_GPUS.values():
            found.update(checks if re.fullmatch(pattern, name) else ())
    return found
