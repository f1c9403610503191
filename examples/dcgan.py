"""Two convolutional networks play against each other until the one draws handwritten digits.

Radford, Metz and Chintala, Unsupervised representation learning with deep convolutional generative adversarial networks, 2015
(arXiv:1511.06434), with its initialisation: weights of deviation 0.02. Images of 16 x 16.
Run: shadergrad run examples/dcgan.py [--compile], or python examples/dcgan.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim

from shadergrad.data import load_digits

BATCH, NZ, NGF, NDF, STEPS = 64, 32, 16, 16, 600


def weights_init(m) -> None:
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    """Noise (n, NZ, 1, 1) to images (n, 1, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NZ, NGF * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(NGF * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 2, NGF, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input: Tensor) -> Tensor:
        return self.main(input)


class Discriminator(nn.Module):
    """Images to the probability that they are real, (n,)."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, NDF, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF, NDF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input: Tensor) -> Tensor:
        return self.main(input).view(-1)


def build(device: str) -> nn.ModuleList:
    return nn.ModuleList([Generator().apply(weights_init), Discriminator().apply(weights_init)]).to(device)


def training(nets: nn.ModuleList, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """Of each step the losses of discriminator and generator, (2,), without end."""
    netG, netD = nets
    small = torch.from_numpy(load_digits()[0]).view(-1, 1, 8, 8) * 2 - 1
    images = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False).to(device)
    criterion = nn.BCELoss()
    optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def step(real: Tensor, noise: Tensor) -> Tensor:
        label = torch.full((len(real),), 1.0, device=real.device)
        netD.zero_grad()
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)  # for the generator its fakes are real
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        return torch.stack([errD_real + errD_fake, errG]).detach()

    if compiled:
        step = torch.compile(step)
    while True:
        real = images[torch.randint(0, len(images), (BATCH,)).to(device)]
        yield step(real, torch.randn(BATCH, NZ, 1, 1).to(device))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    nets = build(device)
    for k, losses in zip(range(STEPS), training(nets, device, "--compile" in sys.argv)):
        if k % 50 == 0 or k == STEPS - 1:
            print("step {:3}  discriminator {:.3f}  generator {:.3f}".format(k, *losses.tolist()))
    with torch.no_grad():
        drawn = nets[0](torch.randn(4, NZ, 1, 1).to(device)).cpu().view(4, 16, 16)
    for row in drawn.permute(1, 0, 2).tolist():
        print("   ".join("".join(" .:*#"[min(4, int(2.5 * pixel + 2.5))] * 2 for pixel in digit) for digit in row))
