"""kornia: filters, colours, geometry and augmentations with what they draw given."""

import kornia as k
import torch
from both import numbers, report


def image(seed=0):
    return torch.sigmoid(numbers(2, 3, 8, 9, seed=seed))


def some(x):
    return x.flatten()[:60].tolist()


def differentiable():
    shift = torch.zeros(2, 2, requires_grad=True)
    moved = k.geometry.transform.translate(image(), shift + 0.3)
    moved.square().sum().backward()
    return shift.grad.flatten().tolist()


def augmentation():
    chain = k.augmentation.AugmentationSequential(
        k.augmentation.RandomHorizontalFlip(p=1.0),
        k.augmentation.Normalize(torch.tensor([0.5] * 3), torch.tensor([0.2] * 3)),
        data_keys=["input"],
    )
    return some(chain(image()))


if __name__ == "__main__":
    report(
        blur=lambda: some(k.filters.gaussian_blur2d(image(), (3, 3), (1.0, 1.0))),
        sobel=lambda: some(k.filters.sobel(image())),
        colours=lambda: some(k.color.rgb_to_hsv(image())) + some(k.color.rgb_to_lab(image())),
        rotation=lambda: some(k.geometry.transform.rotate(image(), torch.tensor([30.0, -10.0]))),
        resize=lambda: some(k.geometry.transform.resize(image(), (5, 4))),
        similarity=lambda: [
            k.losses.ssim_loss(image(), image(1), 5).item(),
            k.metrics.psnr(image(), image(1), 1.0).item(),
        ],
        differentiable=differentiable,
        augmentation=augmentation,
    )
