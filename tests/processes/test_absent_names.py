"""Names of PyTorch's that are not here: what only names one goes on, what uses one raises, and a question is answered truthfully."""

from __future__ import annotations

import re
from pathlib import Path

from test_run_script import run

NAMED = """
import abc, dataclasses, importlib.metadata, importlib.util, typing
import torch
import torch.distributed.tensor as dt
from torch.fx.experimental.proxy_tensor import make_fx
from torch.ao.nn.quantized import Linear as QuantizedLinear

class Derived(QuantizedLinear, abc.ABC):
    def f(self, x: dt.DTensor | None, y: typing.Optional[make_fx], z: QuantizedLinear[int] = QuantizedLinear.x) -> "x":
        pass

@torch.sparse.addmm
def applied():
    pass

@torch.sparse.mm(1)
class Made:
    pass

assert not isinstance(1, QuantizedLinear) and not isinstance(1, (str, dt.DTensor)) and issubclass(Derived, QuantizedLinear)
assert not dataclasses.is_dataclass(torch.float32) and not dataclasses.is_dataclass(torch.device("cpu"))
assert QuantizedLinear == QuantizedLinear and {QuantizedLinear: 1}[QuantizedLinear] == 1
try:
    1 / 0
except torch.distributed.DistBackendError:
    pass
except ZeroDivisionError:
    print("caught")
"""

QUESTIONS = """
import contextlib, importlib.metadata, importlib.util
import torch
import torch.distributed.tensor
try:
    from torch.ao.nn.quantized import Linear
    raise SystemExit("pretended")
except ImportError:
    pass
try:
    import torch.ao.nn.qat
    raise SystemExit("pretended")
except (ValueError, ModuleNotFoundError):
    pass
with contextlib.suppress(ImportError):
    import torch.ao.nn.qat
    raise SystemExit("pretended")
try:
    torch.sparse.mm
    raise SystemExit("pretended")
except AttributeError:
    pass
def asks():
    try:
        torch.sparse.mm
    except AttributeError:
        return False
    return True
assert not asks()
assert not hasattr(torch, "sparse_coo_tensor_") and not hasattr(torch.distributed.tensor, "DTensor")
assert getattr(torch, "sparse_compressed_tensor", None) is None and not hasattr(torch, "sparse_compressed_tensor")
assert importlib.util.find_spec("torch.sparse") is None and importlib.util.find_spec("torch") is not None
assert importlib.metadata.version("torch") == "2.13.0"
print("answered")
"""

USES = """
import torch
from torch.ao.nn.quantized import Linear
import torch.distributed.tensor as dt

class Derived(torch.nn.Module, Linear):
    pass

@torch.sparse.addmm
def applied():
    pass

@torch.sparse.mm(1)
class Made:
    pass

def sets():
    Linear.scale = 1
def enters():
    with Linear:
        pass
for use in (Linear, Derived, applied, Made, dt.DTensor.from_local, lambda: Linear() , lambda: bool(Linear), lambda: [*Linear],
            lambda: Linear + 1, lambda: 1 in Linear, lambda: len(Linear), sets, enters, lambda: Linear < 1):
    try:
        use()
    except NotImplementedError as error:
        assert isinstance(error, AttributeError) and "is not in shadergrad" in str(error)
        print(error)
    else:
        raise SystemExit(f"{use} pretended")
"""


def test_naming_what_is_absent_ends_no_program(tmp_path: Path) -> None:
    assert run(tmp_path, NAMED) == (0, "caught\n", "")


def test_questions_are_answered_truthfully(tmp_path: Path) -> None:
    code, out, error = run(tmp_path, QUESTIONS)
    assert (code, out) == (0, "answered\n"), error


def test_using_what_is_absent_raises_and_is_listed(tmp_path: Path) -> None:
    code, out, error = run(tmp_path, USES)
    assert code == 0, error
    first, *_ = lines = out.splitlines()
    assert first == "torch.ao.nn.quantized.Linear is not in shadergrad. Hint: docs/from-pytorch.md says what is."
    assert lines[1].startswith("Derived derives from torch.ao.nn.quantized.Linear, which is not in shadergrad.")
    assert lines[2].startswith("applied is decorated with torch.sparse.addmm, which is not in shadergrad.")
    assert lines[3].startswith("Made is decorated with torch.sparse.mm, which is not in shadergrad.")
    assert re.search(r"Not in shadergrad, and asked for:\n(.*\n)*  torch.sparse.mm +script.py:\d+", error)
