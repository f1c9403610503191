"""A generator learns eight heaps of points on a circle from a critic whose gradient is kept at length 1.

Gulrajani et al., Improved training of Wasserstein GANs, 2017 (arXiv:1704.00028). The penalty is on a gradient, so its own gradient is
a second derivative.
Run: shadergrad run examples/wgan_gp.py [--compile], or python examples/wgan_gp.py with PyTorch.
"""

import math
import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
from torch import Tensor, autograd, optim

BATCH, HIDDEN, LAMBDA, CRITIC_ITERS, STEPS = 256, 128, 0.1, 5, 600


def net(outputs: int) -> nn.Sequential:
    layers = [nn.Linear(2, HIDDEN), nn.ReLU(True), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, outputs))


def eight_gaussians(n: int) -> Tensor:
    """Points (n, 2) around eight places on a circle of radius 1."""
    angle = torch.randint(0, 8, (n,)) * (math.pi / 4)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.02 * torch.randn(n, 2)


def gradient_penalty(netD: nn.Module, real: Tensor, fake: Tensor, alpha: Tensor) -> Tensor:
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = netD(interpolates)
    gradients = autograd.grad(
        outputs=scores,
        inputs=interpolates,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


def build(device: str) -> nn.ModuleList:
    return nn.ModuleList([net(2), net(1)]).to(device)


def training(nets: nn.ModuleList, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The critic's loss after each step of the generator, without end."""
    netG, netD = nets
    optimizerD = optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def criticize(real: Tensor, noise: Tensor, alpha: Tensor) -> Tensor:
        netD.zero_grad()
        fake = netG(noise).detach()
        wasserstein = netD(fake).mean() - netD(real).mean()
        loss = wasserstein + gradient_penalty(netD, real, fake, alpha)
        loss.backward()
        optimizerD.step()
        return loss.detach()

    def generate(noise: Tensor) -> None:
        netG.zero_grad()
        (-netD(netG(noise)).mean()).backward()
        optimizerG.step()

    if compiled:
        criticize, generate = torch.compile(criticize), torch.compile(generate)
    while True:
        losses = []
        for _ in range(CRITIC_ITERS):
            draws = (eight_gaussians(BATCH), torch.randn(BATCH, 2), torch.rand(BATCH, 1))
            losses.append(criticize(*(x.to(device) for x in draws)))
        generate(torch.randn(BATCH, 2).to(device))
        yield losses[-1]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    nets = build(device)
    for k, loss in zip(range(STEPS), training(nets, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  critic {loss.item():.4f}")
    with torch.no_grad():
        points = nets[0](torch.randn(2000, 2).to(device)).cpu()
    angle = torch.atan2(points[:, 1], points[:, 0])
    heap = (angle / (math.pi / 4)).round()
    near = (points - torch.stack([(heap * math.pi / 4).cos(), (heap * math.pi / 4).sin()], 1)).norm(dim=1) < 0.2
    shares = [((heap % 8 == k) & near).float().mean().item() for k in range(8)]
    print("points within 0.2 of each heap:", "  ".join(f"{100 * s:.0f} %" for s in shares))
