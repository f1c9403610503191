"""The exceptions that shadergrad raises on purpose.

Each also derives from the built-in exception that PyTorch raises in the same place, so `except RuntimeError`
or `except ValueError` around ported code keeps working. Messages name the request, the mistake and what to do (Hint).
"""


class ShadergradError(Exception):
    """Base of all errors of this library: `except sg.ShadergradError` catches them all."""


class ShapeError(ShadergradError, ValueError, RuntimeError):
    """Shapes, sizes or other numbers that do not fit the operation. Raised at the call, before anything is computed."""


class DTypeError(ShadergradError, TypeError, RuntimeError):
    """Element types that the operation or the device does not support. Raised at the call, before anything is computed."""


class ArgumentTypeError(ShadergradError, TypeError):
    """An argument of the wrong type, a missing argument, or an unknown one. Raised at the call."""


class ArgumentError(ShadergradError, ValueError, RuntimeError):
    """An argument with an invalid value. PyTorch raises ValueError from modules, RuntimeError from functions."""


class UnsupportedError(ArgumentError, NotImplementedError):
    """A combination of arguments that PyTorch does not implement either, and raises NotImplementedError for."""


class DeviceError(ShadergradError, RuntimeError):
    """An unknown or missing device, or operands on different ones. Raised at the call, or where a device is first used."""


class OutOfMemoryError(DeviceError, MemoryError):
    """The device has too little memory. Raised where the value is computed, not where the operation is called."""


class LimitError(DeviceError):
    """A kernel or buffer is larger than a limit of the device. Raised where the value is computed."""


class DeviceLostError(DeviceError):
    """The adapter vanished; device memory is gone. Raised by every use of the device until `sg.devices.reset()`."""


class AutogradError(ShadergradError, RuntimeError):
    """An impossible backward pass, or an operation that would make one wrong: a leaf changed in place, values read from the
    tape.
    """


class IndexRangeError(ShadergradError, IndexError):
    """An index or axis outside its range. Raised at the call; for indices in a tensor, where the value is computed."""


class PositionError(IndexRangeError, RuntimeError):
    """A position in a tensor that is outside its axis. PyTorch raises IndexError from subscripts, RuntimeError from gather."""


class AxisError(IndexRangeError, ShapeError):
    """An axis that the tensor does not have, or that has no element where one is needed. Raised at the call."""


class NotTensorsError(ArgumentTypeError, RuntimeError):
    """A value other than tensors where tensors are expected. PyTorch raises RuntimeError for a sequence, else TypeError."""


class IndexTypeError(IndexRangeError, DTypeError):
    """A value in brackets that is not an index."""


class CompileError(ShadergradError, RuntimeError):
    """A function that cannot be captured, or a kernel that does not compile. Raised in the first call of a compiled
    step.
    """


class CheckpointError(ShadergradError, RuntimeError):
    """A file that is not a checkpoint, is damaged, or belongs to another run. Raised by saving and loading."""


class PlanError(ShadergradError, ValueError):
    """A text that is not a plan, or a plan of another format. Raised when a plan is read."""


class HostWarning(UserWarning):
    """An operation that runs on the host was called with a tensor on a GPU. Given once in a process."""


class LinAlgError(ShadergradError, RuntimeError, ValueError):
    """A matrix that has no such decomposition or inverse: singular, or not positive definite. Raised at the call."""


class PrecisionWarning(UserWarning):
    """A program asks for half precision and gets float32. Given once in a process."""
