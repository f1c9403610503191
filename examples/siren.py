"""A network of sines is told nothing of an image but its Laplacian, and finds the image.

Sitzmann et al., Implicit neural representations with periodic activation functions, 2020 (arXiv:2006.09661). The loss is on second
derivatives by the coordinates, so training takes third ones.
Run: shadergrad run examples/siren.py [--compile], or python examples/siren.py with PyTorch.
"""

import math
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

SIDE, WIDTH, LAYERS, STEPS = 24, 64, 2, 500


class SineLayer(nn.Module):
    def __init__(self, in_features: int, out_features: int, is_first: bool = False, omega_0: float = 10.0) -> None:
        super().__init__()
        self.omega_0 = omega_0
        self.linear = nn.Linear(in_features, out_features)
        with torch.no_grad():
            bound = 1 / in_features if is_first else math.sqrt(6 / in_features) / omega_0
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return torch.sin(self.omega_0 * self.linear(input))


class Siren(nn.Module):
    """Coordinates (n, 2) to values (n, 1)."""

    def __init__(self) -> None:
        super().__init__()
        hidden = [SineLayer(WIDTH, WIDTH) for _ in range(LAYERS)]
        self.net = nn.Sequential(SineLayer(2, WIDTH, is_first=True), *hidden, nn.Linear(WIDTH, 1))

    def forward(self, coords: Tensor) -> Tensor:
        return self.net(coords)


def laplace(y: Tensor, x: Tensor) -> Tensor:
    """The sum of the second derivatives of y (n, 1) by each coordinate of x (n, 2): (n, 1)."""
    (grad,) = torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)
    div = torch.zeros_like(y)
    for i in range(x.shape[-1]):
        div = (
            div
            + torch.autograd.grad(grad[..., i], x, torch.ones_like(grad[..., i]), create_graph=True)[0][..., i : i + 1]
        )
    return div


def coordinates() -> Tensor:
    line = torch.linspace(-1, 1, steps=SIDE)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).reshape(-1, 2)


def image(x: Tensor) -> Tensor:
    """Two hills and a valley."""
    hill = lambda a, b, s: torch.exp(-((x[:, :1] - a) ** 2 + (x[:, 1:] - b) ** 2) / s)  # noqa: E731
    return hill(-0.4, -0.4, 0.1) + hill(0.5, 0.1, 0.2) - hill(-0.2, 0.5, 0.1)


def build(device: str) -> Siren:
    return Siren().to(device)


def training(model: Siren, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    x = coordinates().requires_grad_(True)
    target, border = laplace(image(x), x).detach().to(device), image(x).detach().to(device)
    coords = coordinates().to(device)
    edge = (coords.abs().amax(dim=1, keepdim=True) > 0.999).float()  # where the image itself is known
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(coords: Tensor) -> Tensor:
        optimizer.zero_grad()
        coords = coords.clone().detach().requires_grad_(True)
        y = model(coords)
        loss = ((laplace(y, coords) - target) ** 2).mean() / 1000 + (edge * (y - border) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        yield step(coords)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.5f}")
    coords = coordinates()
    with torch.no_grad():
        error = (model(coords.to(device)).cpu() - image(coords)).abs()
    print(f"the image is found to {error.mean().item():.5f} on average, of a range of 2")
