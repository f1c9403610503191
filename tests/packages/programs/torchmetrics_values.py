"""torchmetrics, beside torchvision."""

import torch
import torchmetrics as tm
from both import numbers, report, whole


def classes():
    p, y = numbers(20, 4).softmax(1), whole(20, below=4)
    kinds = (tm.Accuracy, tm.F1Score, tm.AUROC, tm.Precision, tm.Recall, tm.ConfusionMatrix)
    found = [
        kind(task="multiclass", num_classes=4, **({} if kind is tm.ConfusionMatrix else {"average": "macro"}))
        for kind in kinds
    ]
    for metric in found:
        metric.update(p[:10], y[:10])
        metric.update(p[10:], y[10:])
    return torch.cat([metric.compute().float().flatten() for metric in found]).tolist()


def regression():
    x, y = numbers(20), numbers(20, seed=1)
    return [
        kind()(x, y).item()
        for kind in (tm.MeanSquaredError, tm.MeanAbsoluteError, tm.R2Score, tm.PearsonCorrCoef, tm.SpearmanCorrCoef)
    ]


def images():
    x, y = numbers(2, 3, 16, 16).sigmoid(), numbers(2, 3, 16, 16, seed=1).sigmoid()
    return [
        tm.image.StructuralSimilarityIndexMeasure(data_range=1.0)(x, y).item(),
        tm.image.PeakSignalNoiseRatio(data_range=1.0)(x, y).item(),
    ]


def collection():
    found = tm.MetricCollection({"a": tm.Accuracy(task="binary"), "b": tm.F1Score(task="binary")})
    values = found(numbers(20).sigmoid(), whole(20, below=2))
    return [values["a"].item(), values["b"].item()]


if __name__ == "__main__":
    report(classes=classes, regression=regression, images=images, collection=collection)
