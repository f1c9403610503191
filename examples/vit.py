"""A vision transformer reads handwritten digits as 16 patches; einops moves the axes.

Dosovitskiy et al., An image is worth 16 x 16 words, 2020 (arXiv:2010.11929).
Run: shadergrad run examples/vit.py [--compile], or python examples/vit.py with PyTorch. Needs einops: pip install einops.
"""

import sys
from collections.abc import Iterator

import torch
from einops import rearrange, repeat
from einops.layers.torch import Rearrange
from torch import Tensor, nn

from shadergrad.data import load_digits

BATCH, PATCH, WIDTH, DEPTH, HEADS, STEPS = 64, 2, 48, 3, 4, 800


class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in qkv)
        attn = (torch.matmul(q, k.transpose(-1, -2)) * self.scale).softmax(dim=-1)
        return self.to_out(rearrange(torch.matmul(attn, v), "b h n d -> b n (h d)"))


class ViT(nn.Module):
    """Images (b, 1, 8, 8) to logits (b, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.to_patch_embedding = nn.Sequential(
            Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=PATCH, p2=PATCH), nn.Linear(PATCH * PATCH, WIDTH)
        )
        self.pos_embedding = nn.Parameter(torch.randn(1, (8 // PATCH) ** 2 + 1, WIDTH))
        self.cls_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.attentions = nn.ModuleList(Attention(WIDTH, HEADS) for _ in range(DEPTH))
        self.feedforwards = nn.ModuleList(FeedForward(WIDTH, 2 * WIDTH) for _ in range(DEPTH))
        self.mlp_head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10))

    def forward(self, img: Tensor) -> Tensor:
        x = self.to_patch_embedding(img)
        cls_tokens = repeat(self.cls_token, "1 1 d -> b 1 d", b=len(x))
        x = torch.cat((cls_tokens, x), dim=1) + self.pos_embedding
        for attn, ff in zip(self.attentions, self.feedforwards):
            x = attn(x) + x
            x = ff(x) + x
        return self.mlp_head(x[:, 0])


def build(device: str) -> ViT:
    return ViT().to(device)


def training(model: ViT, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images, labels = (torch.from_numpy(a).to(device) for a in load_digits()[:2])
    images = images.view(-1, 1, 8, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels.long(), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        rows = torch.randint(0, len(images), (BATCH,)).to(device)
        yield step(images[rows], labels[rows])


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    images, labels = map(torch.from_numpy, load_digits()[2:])
    with torch.no_grad():
        pred = model(images.view(-1, 1, 8, 8).to(device)).argmax(dim=1).cpu()
    print(f"test accuracy {100 * pred.eq(labels).float().mean().item():.1f} %")
