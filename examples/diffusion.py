"""A U-Net learns to take noise away from handwritten digits, and so makes digits of noise alone.

Ho, Jain and Abbeel, Denoising diffusion probabilistic models, 2020 (arXiv:2006.11239), with the moving average of the weights (EMA) that
samples are drawn with. Images of 8 x 8.
Run: shadergrad run examples/diffusion.py [--compile], or python examples/diffusion.py with PyTorch.
"""

import copy
import math
import sys
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shadergrad.data import load_digits

BATCH, CHANNELS, TIMESTEPS, DECAY, STEPS = 64, 16, 100, 0.99, 1000

betas = torch.linspace(1e-3, 0.1, TIMESTEPS)
alphas = 1.0 - betas
alphas_cumprod = torch.cumprod(alphas, dim=0)


class SinusoidalPositionEmbeddings(nn.Module):
    def forward(self, time: Tensor) -> Tensor:
        half = CHANNELS // 2
        scales = torch.exp(torch.arange(half, device=time.device) * -(math.log(1000) / (half - 1)))
        angles = time[:, None] * scales[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(dim_in, dim_out, 3, padding=1), nn.GroupNorm(4, dim_out)
        self.conv2, self.norm2 = nn.Conv2d(dim_out, dim_out, 3, padding=1), nn.GroupNorm(4, dim_out)
        self.time = nn.Linear(4 * CHANNELS, dim_out)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        x = F.silu(self.norm1(self.conv1(x))) + self.time(t)[:, :, None, None]
        return F.silu(self.norm2(self.conv2(x)))


class Unet(nn.Module):
    """Noisy images (n, 1, 8, 8) and times (n,) to the noise in them."""

    def __init__(self) -> None:
        super().__init__()
        c = CHANNELS
        self.time_mlp = nn.Sequential(SinusoidalPositionEmbeddings(), nn.Linear(c, 4 * c), nn.SiLU())
        self.down1, self.down2, self.middle = Block(1, c), Block(c, 2 * c), Block(2 * c, 4 * c)
        self.up2, self.up1 = Block(6 * c, 2 * c), Block(3 * c, c)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        t = self.time_mlp(time.float())
        h1 = self.down1(x, t)
        h2 = self.down2(F.max_pool2d(h1, 2), t)
        h = self.middle(F.max_pool2d(h2, 2), t)
        h = self.up2(torch.cat((self.upsample(h), h2), dim=1), t)
        return self.out(self.up1(torch.cat((self.upsample(h), h1), dim=1), t))


class EMA:
    """A copy of a network whose weights follow the network's slowly."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for slow, fast in zip(self.shadow.parameters(), model.parameters()):
            slow.lerp_(fast, 1 - DECAY)


def build(device: str) -> Unet:
    return Unet().to(device)


def training(model: Unet, device: str, compiled: bool = False, ema: EMA | None = None) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images = torch.from_numpy(load_digits()[0]).view(-1, 1, 8, 8).to(device) * 2 - 1
    kept = alphas_cumprod.to(device)
    ema = ema or EMA(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(x_start: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        optimizer.zero_grad()
        share = kept.gather(0, t)[:, None, None, None]
        x_noisy = share.sqrt() * x_start + (1 - share).sqrt() * noise
        loss = F.smooth_l1_loss(model(x_noisy, t), noise)
        loss.backward()
        optimizer.step()
        ema.update(model)
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        rows, t = torch.randint(0, len(images), (BATCH,)), torch.randint(0, TIMESTEPS, (BATCH,))
        noise = torch.randn(BATCH, 1, 8, 8)
        yield step(images[rows.to(device)], t.to(device), noise.to(device))


@torch.no_grad()
def sample(model: nn.Module, n: int, device: str) -> Tensor:
    x = torch.randn(n, 1, 8, 8).to(device)
    for i in reversed(range(TIMESTEPS)):
        noise = model(x, torch.full((n,), i, device=device))
        x = (x - betas[i].item() / math.sqrt(1 - alphas_cumprod[i].item()) * noise) / math.sqrt(alphas[i].item())
        if i:
            x = x + math.sqrt(betas[i].item()) * torch.randn(n, 1, 8, 8).to(device)
    return x.clamp(-1, 1).cpu()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    ema = EMA(model)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv, ema)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    for row in sample(ema.shadow, 6, device).view(6, 8, 8).permute(1, 0, 2).tolist():
        print("   ".join("".join(" .:*#"[min(4, int(2.5 * p + 2.5))] * 2 for p in digit) for digit in row))
