"""Libraries built on PyTorch train on the device as on PyTorch's cpu: random weights, ten losses. Each needs its package."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

D = "webgpu"
STEPS = 10
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs: of other releases, of settings that no test needs


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def package(name: str) -> Any:
    """A package; the test is skipped where it is absent or its binary parts do not load."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name} does not load here: {str(error).splitlines()[0]}")


def named(module: str, name: str) -> Any:
    """A name of a package that imports its parts when they are asked for."""
    try:
        return getattr(package(module), name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{module}.{name} does not load here: {str(error).splitlines()[0]}")


def losses(model: nn.Module, loss_of: Callable[[Any, str], Tensor], device: str) -> list[float]:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.01)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, device)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


TOKENS = torch.arange(16).reshape(2, 8) * 7 % 50
IMAGES = torch.linspace(-1, 1, 2 * 3 * 32 * 32).sin().reshape(2, 3, 32, 32)


def of_tokens(model: Any, device: str) -> Tensor:
    return model(input_ids=TOKENS.to(device), labels=TOKENS.to(device)).loss


def of_images(model: Any, device: str) -> Tensor:
    return F.cross_entropy(model(IMAGES.to(device)), torch.tensor([0, 1], device=device))


SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def transformer(config: str, model: str, **options: Any) -> Any:
    return named("transformers", model)(named("transformers", config)(**options))


def llama() -> Any:
    return transformer(
        "LlamaConfig", "LlamaForCausalLM", **{**SMALL, "num_attention_heads": 4}, num_key_value_heads=2,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


def gpt2() -> Any:
    return transformer(
        "GPT2Config", "GPT2LMHeadModel", vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=16,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip


def t5() -> Any:
    return transformer(
        "T5Config", "T5ForConditionalGeneration", vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        dropout_rate=0.0, decoder_start_token_id=0,
    )  # fmt: skip


def vit() -> Any:
    sizes = {k: v for k, v in SMALL.items() if k != "vocab_size"}
    return transformer(
        "ViTConfig", "ViTForImageClassification", **sizes, **UNDROPPED, image_size=32, patch_size=16, num_labels=3
    )


def adapted() -> Any:
    config = named("peft", "LoraConfig")(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    return named("peft", "get_peft_model")(llama(), config)


def graph_network() -> nn.Module:
    kind = package("torch_geometric.nn").GCNConv

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = kind(4, 8), kind(8, 2)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            return self.second(self.first(x, edges).relu(), edges)

    return Network()


def of_graph(model: Any, device: str) -> Tensor:
    edges = torch.arange(24).reshape(2, 12) * 5 % 6
    return model(torch.linspace(-1, 1, 24).reshape(6, 4).to(device), edges.to(device)).pow(2).mean()


def timm(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: package("timm").create_model(name, num_classes=3, **options).eval()


MODELS: dict[str, tuple[Callable[[], Any], Callable[[Any, str], Tensor]]] = {
    "BERT": (lambda: transformer("BertConfig", "BertForMaskedLM", **SMALL, **UNDROPPED), of_tokens),
    "GPT-2": (gpt2, of_tokens),
    "Llama": (llama, of_tokens),
    "T5": (t5, of_tokens),
    "ViT": (vit, lambda m, d: m(pixel_values=IMAGES.to(d), labels=torch.tensor([0, 1], device=d)).loss),
    "LoRA": (adapted, of_tokens),
    "GCN": (graph_network, of_graph),
    "resnet18": (timm("resnet18"), of_images),
    "vit_tiny": (timm("vit_tiny_patch16_224", img_size=32, depth=1), of_images),
    "efficientnet_b0": (timm("efficientnet_b0"), of_images),
    "mobilenetv3": (timm("mobilenetv3_small_050"), of_images),
    "convnext_atto": (timm("convnext_atto"), of_images),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_a_model_of_a_library_trains_as_on_pytorchs_cpu(case: str, torch_device: Any) -> None:
    make, loss_of = MODELS[case]
    model = make()
    twin = copy.deepcopy(model)
    assert losses(model.to(D), loss_of, D) == pytest.approx(losses(twin, loss_of, "cpu"), abs=1e-4)


@pytest.mark.slow
def test_a_llama_generates_with_a_cache(torch_device: Any) -> None:
    model = llama().eval()
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": torch.ones_like(TOKENS)}
    expected = model.generate(TOKENS, **options)
    options["attention_mask"] = options["attention_mask"].to(D)
    assert torch.equal(model.to(D).generate(TOKENS.to(D), **options).cpu(), expected)


def test_accelerate_trains_on_the_device_that_its_variable_names(
    torch_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerate = package("accelerate")
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", D)
    accelerate.state.AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator()
    assert accelerator.device.type == D
    model = nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 2))
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(data, 2)
    )
    for x, y in loader:
        assert x.device.type == D
        optimizer.zero_grad()
        accelerator.backward(F.mse_loss(model(x), y))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert model.weight.isfinite().all()
    accelerate.state.AcceleratorState._reset_state(True)


def test_einops_rearranges(torch_device: Any) -> None:
    einops = package("einops")
    x = torch.randn(2, 3, 4)
    for y in (x, x.to(D)):
        z = einops.rearrange(y, "a b c -> c (a b)")
        z = einops.repeat(einops.reduce(z, "c d -> c", "mean"), "c -> c e", e=2)
        torch.testing.assert_close(z.cpu(), x.mean((0, 1))[:, None].expand(4, 2))
