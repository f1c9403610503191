"""Every exception shadergrad raises on purpose.

Each also derives from the built-in exception that PyTorch raises in the same place, so `except RuntimeError`
or `except ValueError` around ported code keeps working. Messages say what was asked, what was wrong, what to do.
"""


class ShadergradError(Exception):
    """Base of all errors of this library: `except sg.ShadergradError` catches what it raises on purpose."""


class ShapeError(ShadergradError, ValueError, RuntimeError):
    """Shapes, sizes or other numbers that do not fit the operation. Raised at the call, before anything is computed."""


class DTypeError(ShadergradError, TypeError, RuntimeError):
    """Element types that the operation, or the device, does not take. Raised at the call, before anything is computed."""


class ArgumentTypeError(ShadergradError, TypeError):
    """An argument of a kind that the function does not take, a missing or an unknown one. Raised at the call."""


class ArgumentError(ShadergradError, ValueError, RuntimeError):
    """An argument whose value makes no sense. PyTorch raises ValueError from modules, RuntimeError from functions."""


class DeviceError(ShadergradError, RuntimeError):
    """An unknown or missing device, or operands on different ones. Raised at the call, or where a device is first used."""


class OutOfMemoryError(DeviceError, MemoryError):
    """The device cannot hold what was asked for. Raised where the value is computed, not where the operation is called."""


class LimitError(DeviceError):
    """A kernel or buffer is larger than a limit of the device. Raised where the value is computed."""


class DeviceLostError(DeviceError):
    """The adapter vanished; device memory is gone. Raised by every use of the device until `sg.devices.reset()`."""


class AutogradError(ShadergradError, RuntimeError):
    """A backward pass that cannot be done, and what would make one wrong: a leaf changed in place, values read from the
    tape.
    """


class IndexRangeError(ShadergradError, IndexError):
    """An index or axis outside its range. Raised at the call; for indices in a tensor, where the value is computed."""


class AxisError(IndexRangeError, ShapeError):
    """An axis that the tensor does not have, or that has no element where one is needed. Raised at the call."""


class NotTensorsError(ArgumentTypeError, RuntimeError):
    """Something else where tensors are expected. PyTorch raises TypeError of what is no sequence, RuntimeError of one."""


class IndexTypeError(IndexRangeError, DTypeError):
    """Something in brackets that is no index."""


class CompileError(ShadergradError, RuntimeError):
    """A function that cannot be captured, or a kernel that does not compile. Raised in the first call of a compiled
    step.
    """


class CheckpointError(ShadergradError, RuntimeError):
    """A file that is no checkpoint, is damaged, or belongs to another run. Raised by saving and loading."""


class PlanError(ShadergradError, ValueError):
    """Text that is no plan, or one of another format. Raised where a plan is read."""


class HostWarning(UserWarning):
    """An operation that runs on the host was asked for a tensor on a GPU. Given once in a process."""


class LinAlgError(ShadergradError, RuntimeError, ValueError):
    """A matrix that has no such decomposition or inverse: singular, or not positive definite. Raised at the call."""


class PrecisionWarning(UserWarning):
    """A program asks for half precision, and gets float32. Given once in a process."""
