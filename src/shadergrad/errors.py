"""Every exception shadergrad raises on purpose.

Each also derives from the built-in exception that PyTorch raises in the same place, so `except RuntimeError`
or `except ValueError` around ported code keeps working. Messages say what was asked, what was wrong, what to do.
"""


class ShadergradError(Exception):
    """Base of all errors of this library."""


class ShapeError(ShadergradError, ValueError, RuntimeError):
    """Shapes that do not fit the operation."""


class DTypeError(ShadergradError, TypeError, RuntimeError):
    """Element types that the operation, or the device, does not take."""


class ArgumentTypeError(ShadergradError, TypeError):
    """An argument of a kind that the function does not take, a missing or an unknown one."""


class DeviceError(ShadergradError, RuntimeError):
    """An unknown or missing device, or operands on different ones."""


class OutOfMemoryError(DeviceError, MemoryError):
    """The device cannot hold what was asked for."""


class LimitError(DeviceError):
    """A kernel or buffer is larger than a limit of the device."""


class DeviceLostError(DeviceError):
    """The adapter vanished; device memory is gone."""


class AutogradError(ShadergradError, RuntimeError):
    """A backward pass that cannot be done."""


class IndexRangeError(ShadergradError, IndexError):
    """An index outside its axis."""


class CompileError(ShadergradError, RuntimeError):
    """A function that cannot be captured, or a kernel that does not compile."""


class CheckpointError(ShadergradError, RuntimeError):
    """A file that is no checkpoint, is damaged, or belongs to another run."""


class PlanError(ShadergradError, ValueError):
    """Text that is no plan, or one of another format."""
