"""The modules that stand under PyTorch's names, and putting them there.

Each is a module of its own with the public names of one of ours, so that what a program sets in it stays there, and so
that a name that is not there is reported as the program wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..cpython import frame_of_caller
from . import missing_names

PYTORCH = "2.13.0"  # the release whose names these are

# Under PyTorch's name, as far as it is ours too
_SAME = [
    "accelerator",
    "amp",
    "autograd",
    "autograd.function",
    "autograd.functional",
    "autograd.gradcheck",
    "backends",
    "backends.cuda",
    "backends.cudnn",
    "backends.mkldnn",
    "backends.mps",
    "compiler",
    "cuda",
    "cuda.amp",
    "distributed",
    "distributions",
    "distributions.kl",
    "distributions.transforms",
    "fft",
    "func",
    "jit",
    "linalg",
    "mps",
    "nn",
    "nn.functional",
    "nn.init",
    "nn.parallel",
    "nn.parameter",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "optim.optimizer",
    "random",
    "serialization",
    "signal",
    "signal.windows",
    "special",
    "testing",
    "utils",
    "utils.checkpoint",
    "utils.data",
    "utils.dlpack",
    "utils.tensorboard",
]

# Files of PyTorch's that programs name, and the module of ours that has what they look for there
_ELSEWHERE = {
    "nn": """nn.attention nn.modules nn.modules.activation nn.modules.batchnorm nn.modules.container nn.modules.conv
        nn.modules.distance nn.modules.dropout nn.modules.flatten nn.modules.instancenorm nn.modules.linear
        nn.modules.loss nn.modules.module nn.modules.normalization nn.modules.padding nn.modules.pixelshuffle
        nn.modules.pooling nn.modules.rnn nn.modules.sparse nn.modules.transformer nn.modules.upsampling""",
    "nn.utils": "nn.utils.clip_grad nn.utils.weight_norm nn.utils.spectral_norm nn.utils.convert_parameters",
    "optim": "optim.adam optim.adamw optim.adagrad optim.adadelta optim.lbfgs optim.rmsprop optim.sgd",
    "utils.data": "utils.data.dataset utils.data.dataloader utils.data.sampler",
    "distributions": """distributions.distribution distributions.normal distributions.categorical
        distributions.bernoulli distributions.uniform distributions.multivariate_normal distributions.independent
        distributions.transformed_distribution""",
    "amp": "amp.autocast_mode amp.grad_scaler",
    "autograd": "autograd.variable autograd.grad_mode",
    "": "types functional",
    "compiler": "_dynamo",
}

# Private names that programs import all the same
_PRIVATE = {
    "optim.lr_scheduler": {"_LRScheduler": "LRScheduler"},
    "nn.modules.batchnorm": {"_BatchNorm": "batchnorm._BatchNorm"},
    "nn.modules.instancenorm": {"_InstanceNorm": "batchnorm._InstanceNorm"},
    "nn.modules.loss": {"_Loss": "Module"},
}


class StandIn(ModuleType):
    """A module under PyTorch's name. A name that it lacks is noted, with who asked."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        whole = f"{self.__name__}.{name}"
        missing_names.note(whole, frame_of_caller())
        raise AttributeError(
            f"{whole} is not in shadergrad. Hint: docs/from-pytorch.md says what is.", name=name, obj=self
        )


class Finder(MetaPathFinder, Loader):
    """Asked for modules that are not there, before Python looks for them in an installed PyTorch."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname.startswith("torch."):
            missing_names.note(fullname, missing_names.importer())
            raise ModuleNotFoundError(
                f"{fullname} is not in shadergrad. Hint: docs/from-pytorch.md says what is.", name=fullname
            )


def _stand_in(name: str, source: ModuleType) -> StandIn:
    """A module torch.name with the public names of `source`; those that are modules are left to their own stand-ins."""
    made = StandIn(f"torch.{name}" if name else "torch", source.__doc__)
    shown = {k: v for k, v in vars(source).items() if not k.startswith("_") and not isinstance(v, ModuleType)}
    made.__dict__.update(shown, __path__=[])
    made.__spec__ = ModuleSpec(made.__name__, None, is_package=True)
    for private, where in _PRIVATE.get(name, {}).items():
        found: Any = source
        for part in where.split("."):
            found = getattr(found, part)
        setattr(made, private, found)
    return made


def _ntuple(n: int) -> Any:
    return lambda x: tuple(x) if isinstance(x, tuple | list) else (x,) * n


def stand_ins() -> dict[str, StandIn]:
    """All of them by their names, each an attribute of the one that holds it."""
    sources = {"": ""} | {name: name for name in _SAME}
    sources |= {name: source for source, names in _ELSEWHERE.items() for name in names.split()}
    found = {n: _stand_in(n, import_module(f"shadergrad.{s}" if s else "shadergrad")) for n, s in sources.items()}
    tuples = StandIn("torch.nn.modules.utils")
    tuples.__dict__.update(
        _single=_ntuple(1), _pair=_ntuple(2), _triple=_ntuple(3), _quadruple=_ntuple(4), _ntuple=_ntuple
    )
    found["nn.modules.utils"] = tuples
    version = StandIn("torch.version")
    version.__dict__.update(__version__=PYTORCH, cuda=None, hip=None, debug=False)
    found["version"] = version
    core = StandIn("torch._C")  # PyTorch's extension module: libraries report to it that they are used
    core.__dict__.update(_log_api_usage_once=lambda event: None)
    found["_C"] = core
    vars(found[""])["__version__"] = PYTORCH
    for name in sorted(found):
        if name:
            holder, _, last = name.rpartition(".")
            found[holder].__dict__.setdefault(last, found[name])  # torch.nn.utils.weight_norm is the function
    return {module.__name__: module for module in found.values()}


def install() -> None:
    """Put the stand-ins under PyTorch's names, for the rest of this process."""
    sys.modules.update(stand_ins())
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


@contextmanager
def installed() -> Iterator[None]:
    """Within, PyTorch's names are the stand-ins'; then what was there before stands there again.

    Of the libraries over PyTorch, einops and torchmetrics are imported anew on the way in and out, for they keep what they found.
    """
    before = {name: sys.modules[name] for name in _over_pytorch()}
    for name in before:
        del sys.modules[name]
    install()
    try:
        yield
    finally:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]
        for name in _over_pytorch():
            del sys.modules[name]
        sys.modules.update(before)


def _over_pytorch() -> list[str]:
    """The loaded modules that are PyTorch's, or hold what was imported from it."""
    return [name for name in sys.modules if name.split(".")[0] in ("torch", "einops", "torchmetrics")]
