"""Makes modules under PyTorch's names, and installs them in sys.modules.

Each is a module of its own with the public names of one of this library's modules. So a program's assignments to it change no other module,
and an error about a missing name shows the name as the program wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from .absent import StandIn
from .finder import PYTORCH, Finder
from .modules.library import OPS
from .modules.small import SMALL
from .modules.top import TorchVersion

# This library's modules that have the same name in PyTorch
_SAME = [
    "accelerator",
    "amp",
    "autograd",
    "autograd.function",
    "autograd.functional",
    "autograd.gradcheck",
    "autograd.graph",
    "backends",
    "backends.cuda",
    "backends.cudnn",
    "backends.mkldnn",
    "backends.mps",
    "compiler",
    "cuda",
    "cuda.amp",
    "cuda.memory",
    "cuda.nvtx",
    "cuda.streams",
    "distributed",
    "distributions",
    "distributions.constraint_registry",
    "distributions.constraints",
    "distributions.kl",
    "distributions.transforms",
    "distributions.utils",
    "fft",
    "func",
    "jit",
    "linalg",
    "mps",
    "nn",
    "nn.attention",
    "nn.attention.flex_attention",
    "nn.functional",
    "nn.init",
    "nn.modules.module",
    "nn.parallel",
    "nn.parameter",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.prune",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "optim.optimizer",
    "optim.swa_utils",
    "random",
    "serialization",
    "signal",
    "signal.windows",
    "special",
    "testing",
    "utils",
    "utils.checkpoint",
    "utils.data",
    "utils.data.distributed",
    "utils.dlpack",
    "utils.tensorboard",
]

# PyTorch's files that programs import from, and the module of this library with the same names
_ELSEWHERE = {
    "nn": """nn.modules nn.modules.activation nn.modules.batchnorm nn.modules.container nn.modules.conv
        nn.modules.distance nn.modules.dropout nn.modules.flatten nn.modules.instancenorm nn.modules.lazy nn.modules.linear
        nn.modules.loss nn.modules.normalization nn.modules.padding nn.modules.pixelshuffle
        nn.modules.pooling nn.modules.rnn nn.modules.sparse nn.modules.transformer nn.modules.upsampling""",
    "nn.utils": "nn.utils.clip_grad nn.utils.weight_norm nn.utils.spectral_norm nn.utils.convert_parameters",
    "optim": """optim.adam optim.adamw optim.adagrad optim.adadelta optim.adamax optim.asgd optim.lbfgs optim.nadam optim.radam
        optim.rmsprop optim.rprop optim.sgd optim.sparse_adam""",
    "utils.data": """utils.data.dataset utils.data.dataloader utils.data.sampler utils.data._utils
        utils.data._utils.collate utils.data._utils.worker""",
    "distributed": "distributed.distributed_c10d",
    "distributed.default_hooks": "distributed.algorithms.ddp_comm_hooks.default_hooks",
    "nn.parallel": "nn.parallel.distributed",
    "utils.tensorboard": "utils.tensorboard.writer",
    "distributions": """distributions.bernoulli distributions.beta distributions.binomial distributions.categorical
        distributions.cauchy distributions.chi2 distributions.continuous_bernoulli distributions.dirichlet
        distributions.distribution distributions.exp_family distributions.exponential
        distributions.fishersnedecor distributions.gamma distributions.generalized_pareto distributions.geometric
        distributions.gumbel distributions.half_cauchy distributions.half_normal distributions.independent
        distributions.inverse_gamma distributions.kumaraswamy distributions.laplace distributions.lkj_cholesky
        distributions.log_normal distributions.logistic_normal distributions.lowrank_multivariate_normal
        distributions.mixture_same_family distributions.multinomial distributions.multivariate_normal
        distributions.negative_binomial distributions.normal distributions.one_hot_categorical
        distributions.pareto distributions.poisson distributions.relaxed_bernoulli
        distributions.relaxed_categorical distributions.studentT distributions.transformed_distribution
        distributions.uniform distributions.von_mises distributions.weibull distributions.wishart""",
    "amp": "amp.autocast_mode amp.grad_scaler",
    "autograd": "autograd.variable autograd.grad_mode",
    "": "functional",
    "compiler": "_dynamo",
}

# Further modules of PyTorch, and the file of `modules` that implements each. Some add names to modules of this library.
_OWN = {
    "": "top",
    "distributed.tensor": "placements",
    "distributed.tensor.placement_types": "placements",
    "hub": "hub",
    "jit": "jit",
    "library": "library",
    "multiprocessing": "multiprocessing",
    "torch_version": "top",
    "utils._pytree": "pytree",
}

# Private names that programs import
_PRIVATE = {
    "distributions": {"__all__": "__all__"},
    "distributions.utils": {"__all__": "__all__", "_sum_rightmost": "sum_rightmost"},
    "distributions.kl": {"__all__": "__all__", "_KL_REGISTRY": "KL_REGISTRY"},
    "distributions.transforms": {"__all__": "__all__"},
    "distributions.constraint_registry": {"__all__": "__all__"},
    "distributions.constraints": {
        n: n
        for n in [
            "__all__",
            "_Boolean",
            "_Cat",
            "_CorrCholesky",
            "_Dependent",
            "_DependentProperty",
            "_GreaterThan",
            "_GreaterThanEq",
            "_HalfOpenInterval",
            "_IndependentConstraint",
            "_IntegerGreaterThan",
            "_IntegerInterval",
            "_IntegerLessThan",
            "_Interval",
            "_LessThan",
            "_LowerCholesky",
            "_LowerTriangular",
            "_Multinomial",
            "_OneHot",
            "_PositiveDefinite",
            "_PositiveSemidefinite",
            "_Real",
            "_Simplex",
            "_Square",
            "_Stack",
            "_Symmetric",
        ]
    },
    "optim.lr_scheduler": {"_LRScheduler": "LRScheduler"},
    "nn.modules.batchnorm": {"_BatchNorm": "batchnorm._BatchNorm", "_NormBase": "batchnorm._Tracking"},
    "nn.modules.conv": {"_ConvNd": "conv._ConvNd", "_ConvTransposeNd": "conv._TransposedConv"},
    "nn.modules.dropout": {"_DropoutNd": "dropout._Dropout"},
    "nn.modules.instancenorm": {"_InstanceNorm": "batchnorm._InstanceNorm"},
    "nn.modules.loss": {"_Loss": "losses._Loss", "_WeightedLoss": "losses._Weighted"},
    "nn": {"RNNCellBase": "recurrent_cells.RNNCellBase"},
    "nn.modules.rnn": {"RNNCellBase": "recurrent_cells.RNNCellBase"},
    "nn.modules.padding": {
        "_CircularPadNd": "padding._CircularPadding",
        "_ConstantPadNd": "padding._ConstantPadding",
        "_ReflectionPadNd": "padding._ReflectionPadding",
        "_ReplicationPadNd": "padding._ReplicationPadding",
    },
    "nn.modules.lazy": {"LazyModuleMixin": "lazy._Lazy"},
    "nn.modules.pooling": {
        "_AdaptiveAvgPoolNd": "pooling._AdaptiveAvgPool",
        "_LPPoolNd": "unpooling._LPPool",
        "_MaxUnpoolNd": "unpooling._MaxUnpool",
        "_AdaptiveMaxPoolNd": "pooling._AdaptiveMaxPool",
        "_AvgPoolNd": "pooling._AvgPool",
        "_MaxPoolNd": "pooling._MaxPool",
    },
    "nn.modules.module": {
        "_EXTRA_STATE_KEY_SUFFIX": "_EXTRA_STATE_KEY_SUFFIX",
        "_IncompatibleKeys": "_IncompatibleKeys",
    },
}


def _stand_in(name: str, source: ModuleType | None) -> StandIn:
    """A module torch.name with the public names of `source`. Its submodules have their own stand-ins."""
    made = StandIn(f"torch.{name}" if name else "torch", source.__doc__ if source else None)
    if source is not None:
        shown = {k: v for k, v in vars(source).items() if not k.startswith("_") and not isinstance(v, ModuleType)}
        made.__dict__.update(shown)
    made.__dict__.update(__path__=[], __file__=str(Path(__file__).parent / f"{name or 'torch'}.py"))
    made.__spec__ = ModuleSpec(made.__name__, None, origin=made.__file__, is_package=True)
    if name in _OWN:
        made.__dict__.update(_names_of(import_module(f".modules.{_OWN[name]}", __package__)))
    if name in SMALL:
        made.__dict__.update(SMALL[name]())
    for private, where in _PRIVATE.get(name, {}).items():
        found: Any = source
        for part in where.split("."):
            found = getattr(found, part)
        setattr(made, private, found)
    return made


def _names_of(own: ModuleType) -> dict[str, Any]:
    """The names that a file of `modules` defines, private ones too, without those that it imports."""
    return {
        name: value
        for name, value in vars(own).items()
        if not name.startswith("__") and not isinstance(value, ModuleType) and not _is_imported(value, own)
    }


def _is_imported(value: Any, own: ModuleType) -> bool:
    """Whether a value was imported into a file of `modules`. Those of Python's multiprocessing do not count: the stand-in has them."""
    module = (
        value.__module__ if callable(value) and hasattr(value, "__module__") else getattr(type(value), "__module__", "")
    )
    theirs = (own.__name__, "multiprocessing")
    return module == "typing" or (callable(value) and not str(module).startswith(theirs))


def _ntuple(n: int) -> Any:
    return lambda x: tuple(x) if isinstance(x, tuple | list) else (x,) * n


def stand_ins() -> dict[str, StandIn]:
    """All stand-ins by name; each is also an attribute of its parent module."""
    sources = {"": ""} | {name: name for name in _SAME}
    sources |= {name: source for source, names in _ELSEWHERE.items() for name in names.split()}
    found = {n: _stand_in(n, import_module(f"shadergrad.{s}" if s else "shadergrad")) for n, s in sources.items()}
    found |= {n: _stand_in(n, None) for n in (*_OWN, *SMALL) if n not in found}
    tuples = _stand_in("nn.modules.utils", None)
    tuples.__dict__.update(
        consume_prefix_in_state_dict_if_present=import_module(
            "shadergrad.nn.modules.utils"
        ).consume_prefix_in_state_dict_if_present,
        _single=_ntuple(1),
        _pair=_ntuple(2),
        _triple=_ntuple(3),
        _quadruple=_ntuple(4),
        _ntuple=_ntuple,
    )
    found["nn.modules.utils"] = tuples
    version = _stand_in("version", None)
    version.__dict__.update(
        __version__=TorchVersion(PYTORCH), cuda=None, hip=None, xpu=None, rocm=None, debug=False, git_version=""
    )
    found["version"] = version
    found["ops"] = OPS
    found[""].__dict__.update(__version__=TorchVersion(PYTORCH))
    for name in list(found):
        while name := name.rpartition(".")[0]:
            if name not in found:
                found[name] = _stand_in(name, None)
    for name in sorted(found):
        if name:
            holder, _, last = name.rpartition(".")
            found[holder].__dict__.setdefault(last, found[name])  # torch.nn.utils.weight_norm is the function
    found[""].__dict__.update(__config__=found["__config__"], torch=found[""])
    return {module.__name__: module for module in found.values()}


def install() -> None:
    """Install the stand-ins under PyTorch's names, for the rest of this process."""
    sys.modules.update(stand_ins())
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


@contextmanager
def installed() -> Iterator[None]:
    """A context in which PyTorch's module names are those of this library; its end restores the earlier modules.

    einops and torchmetrics are imported anew at the beginning and the end, because they store the modules that they found.
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
