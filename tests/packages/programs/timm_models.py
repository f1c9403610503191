"""Five models of timm, small and random, trained for two steps."""

import timm
from both import fill, numbers, report, train, whole
from torch.nn import functional as F


def model(name, size, **options):
    x, y = numbers(4, 3, size, size), whole(4, below=5)
    made = fill(timm.create_model(name, pretrained=False, num_classes=5, **options))
    return train(made, lambda m: F.cross_entropy(m(x), y), steps=2, lr=1e-3)


if __name__ == "__main__":
    report(
        resnet18=lambda: model("resnet18", 64),
        vit=lambda: model("vit_tiny_patch16_224", 32, img_size=32, patch_size=8, depth=2),
        convnext=lambda: model("convnext_atto", 32, depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
        mobilenetv3=lambda: model("mobilenetv3_small_050", 64),
        mixer=lambda: model("mixer_s32_224", 64, img_size=64),
    )
