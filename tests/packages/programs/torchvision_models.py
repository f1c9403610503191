"""torchvision: a ResNet and others trained for two steps, and transforms of an image."""

import torch
import torchvision
from both import fill, numbers, report, train, whole
from torch.nn import functional as F
from torchvision.transforms import v2


def model(name, size=64, lr=1e-3, **options):
    x, y = numbers(4, 3, size, size), whole(4, below=5)
    made = fill(getattr(torchvision.models, name)(num_classes=5, **options))
    made.train()
    return train(made, lambda m: F.cross_entropy(m(x), y), steps=2, lr=lr)


def transforms():
    image = whole(3, 12, 10, below=256).to(torch.uint8)
    chain = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.Resize((8, 8), antialias=True),
            v2.CenterCrop(6),
            v2.RandomHorizontalFlip(p=1.0),
            v2.Normalize([0.5, 0.5, 0.5], [0.25, 0.25, 0.25]),
        ]
    )
    return chain(image).flatten().tolist()


def grid():
    return torchvision.utils.make_grid(numbers(4, 3, 5, 5), nrow=2, normalize=True).flatten()[:50].tolist()


if __name__ == "__main__":
    report(
        resnet18=lambda: model("resnet18"),
        # of random weights its gradient is ill-conditioned: PyTorch in single precision differs by 5e-4 from double
        mobilenet_v2=lambda: model("mobilenet_v2", dropout=0.0, lr=1e-6),
        transforms=transforms,
        grid=grid,
    )
