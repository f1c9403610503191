"""lightning: a module fitted by the Trainer, validated, and tested."""

import logging
import tempfile
import warnings

import lightning as L
import torch
from both import fill, numbers, report, whole
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
        self.losses = []

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, prog_bar=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("validation", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def fit():
    model = fill(Classifier())
    loader = DataLoader(TensorDataset(numbers(16, 5), whole(16, below=3)), batch_size=4)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=True,
            gradient_clip_val=1.0,
            default_root_dir=folder,
        )
        trainer.fit(model, loader, loader)
        return [*model.losses, float(trainer.callback_metrics["validation"])]


if __name__ == "__main__":
    report(fit=fit)
