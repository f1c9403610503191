"""A variational autoencoder compresses handwritten digits to 8 numbers each, and draws new ones from noise.

Kingma and Welling, Auto-Encoding Variational Bayes, 2013 (arXiv:1312.6114). The loss is the cross-entropy of the pixels and the
divergence of what the encoder says from a normal distribution.
Run: shadergrad run examples/vae.py [--compile], or python examples/vae.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim
from torch.utils.data import DataLoader, TensorDataset

from shadergrad.data import load_digits

BATCH, HIDDEN, LATENT, STEPS = 128, 256, 8, 1500


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, HIDDEN)
        self.fc21 = nn.Linear(HIDDEN, LATENT)
        self.fc22 = nn.Linear(HIDDEN, LATENT)
        self.fc3 = nn.Linear(LATENT, HIDDEN)
        self.fc4 = nn.Linear(HIDDEN, 64)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x: Tensor, x: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Both terms a picture: nats."""
    bce = F.binary_cross_entropy(recon_x, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (bce + kld) / len(x)


def build(device: str) -> VAE:
    return VAE().to(device)


def training(model: VAE, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images = torch.from_numpy(load_digits()[0])
    loader = DataLoader(TensorDataset(images), batch_size=BATCH, shuffle=True, drop_last=True)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(data: Tensor) -> Tensor:
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        for (data,) in loader:
            yield step(data.to(device))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:4}  loss {loss.item():.2f} nats a digit")
    with torch.no_grad():
        drawn = model.decode(torch.randn(6, LATENT).to(device)).cpu().view(6, 8, 8)
    for row in drawn.permute(1, 0, 2).tolist():
        print("   ".join("".join(" .:*#"[min(4, int(5 * pixel))] * 2 for pixel in digit) for digit in row))
