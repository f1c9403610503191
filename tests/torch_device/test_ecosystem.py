"""Libraries built on PyTorch train on the device as on PyTorch's cpu: random weights, ten losses. Each needs its package."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from libraries import SMALL, TOKENS, llama, named, package, transformer
from torch import Tensor, nn
from torch.nn import functional as F

D = "webgpu"
STEPS = 10
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs: of other releases, of settings that no test needs


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


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


IMAGES = torch.linspace(-1, 1, 2 * 3 * 32 * 32).sin().reshape(2, 3, 32, 32)


def of_tokens(model: Any, device: str) -> Tensor:
    return model(input_ids=TOKENS.to(device), labels=TOKENS.to(device)).loss


def of_images(model: Any, device: str) -> Tensor:
    return F.cross_entropy(model(IMAGES.to(device)), torch.tensor([0, 1], device=device))


UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


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


def whisper() -> Any:
    return transformer(
        "WhisperConfig", "WhisperForConditionalGeneration", vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8,
        max_source_positions=8, max_target_positions=16, dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip


def of_sounds(model: Any, device: str) -> Tensor:
    sounds = torch.linspace(-1, 1, 2 * 8 * 16).sin().reshape(2, 8, 16)
    return model(input_features=sounds.to(device), labels=TOKENS.to(device)).loss


def unet() -> Any:
    return named("diffusers", "UNet2DModel")(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip


def of_noise(model: Any, device: str) -> Tensor:
    """A step of diffusion, with the library's schedule of noise."""
    schedule = named("diffusers", "DDPMScheduler")(num_train_timesteps=100)
    clean, times = IMAGES[..., ::2, ::2].to(device), torch.tensor([10, 60], device=device)
    noise = torch.linspace(-3, 3, clean.numel()).cos().reshape(clean.shape).to(device)
    return F.mse_loss(model(schedule.add_noise(clean, noise, times), times).sample, noise)


def vision(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(package("torchvision.models"), name)(num_classes=3, **options).eval()


def of_pixels(model: Any, device: str) -> Tensor:
    labels = torch.arange(2 * 32 * 32).reshape(2, 32, 32) % 3
    return F.cross_entropy(model(IMAGES.to(device))["out"], labels.to(device))


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
    "Whisper": (whisper, of_sounds),
    "UNet2D": (unet, of_noise),
    "LoRA": (adapted, of_tokens),
    "GCN": (graph_network, of_graph),
    "resnet18": (timm("resnet18"), of_images),
    "vit_tiny": (timm("vit_tiny_patch16_224", img_size=32, depth=1), of_images),
    "efficientnet_b0": (timm("efficientnet_b0"), of_images),
    "mobilenetv3": (timm("mobilenetv3_small_050"), of_images),
    "convnext_atto": (timm("convnext_atto"), of_images),
    "torchvision: resnet18": (vision("resnet18"), of_images),
    "torchvision: shufflenet": (vision("shufflenet_v2_x0_5"), of_images),
    "torchvision: squeezenet": (vision("squeezenet1_1"), of_images),
    "torchvision: swin": (vision("swin_t"), of_images),
    "torchvision: segmentation": (
        lambda: (
            package("torchvision.models.segmentation")
            .lraspp_mobilenet_v3_large(num_classes=3, weights_backbone=None)
            .eval()
        ),
        of_pixels,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_a_model_of_a_library_trains_as_on_pytorchs_cpu(case: str, torch_device: Any) -> None:
    make, loss_of = MODELS[case]
    model = make()
    twin = copy.deepcopy(model)
    assert losses(model.to(D), loss_of, D) == pytest.approx(losses(twin, loss_of, "cpu"), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["BERT", "GPT-2", "Llama", "T5", "ViT", "LoRA", "resnet18"])
@pytest.mark.parametrize("lower", [None, torch.bfloat16, torch.float16], ids=["autocast", "bfloat16", "float16"])
def test_a_model_of_a_library_trains_in_halves_as_on_pytorchs_cpu(case: str, lower: Any, torch_device: Any) -> None:
    """A model of halves, and one under autocast; within what rounding to bfloat16 changes."""
    make, loss_of = MODELS[case]
    model = make()

    def run(device: str) -> list[float]:
        twin = copy.deepcopy(model).to(device)
        if lower is not None:
            twin, images = twin.to(lower), IMAGES.to(lower)
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(globals(), "IMAGES", images)
                return losses(twin, loss_of, device)

        def under_autocast(model: Any, place: str) -> Tensor:
            with torch.autocast(place, dtype=torch.bfloat16):
                return loss_of(model, place)

        return losses(twin, under_autocast, device)

    assert run(D) == pytest.approx(run("cpu"), rel=0.02)


@pytest.mark.slow
def test_a_llama_generates_with_a_cache(torch_device: Any) -> None:
    model = llama().eval()
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": torch.ones_like(TOKENS)}
    expected = model.generate(TOKENS, **options)
    options["attention_mask"] = options["attention_mask"].to(D)
    assert torch.equal(model.to(D).generate(TOKENS.to(D), **options).cpu(), expected)


def test_einops_rearranges(torch_device: Any) -> None:
    einops = package("einops")
    x = torch.randn(2, 3, 4)
    for y in (x, x.to(D)):
        z = einops.rearrange(y, "a b c -> c (a b)")
        z = einops.repeat(einops.reduce(z, "c d -> c", "mean"), "c -> c e", e=2)
        torch.testing.assert_close(z.cpu(), x.mean((0, 1))[:, None].expand(4, 2))
