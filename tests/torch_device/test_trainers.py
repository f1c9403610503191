"""Training loops and metrics of libraries choose the device, and give what they give on PyTorch's cpu. Each needs its package."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from libraries import TOKENS, llama, named, package
from torch import Tensor, nn
from torch.nn import functional as F

D = "webgpu"
STEPS = 10
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs: of other releases, of settings that no test needs


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_accelerate_trains_on_the_device_that_its_variable_names(
    torch_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerate = package("accelerate")
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", D)
    accelerate.state.AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator()
    assert accelerator.device.type == D
    model = nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 2))
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(data, 2)
    )
    for x, y in loader:
        assert x.device.type == D
        optimizer.zero_grad()
        accelerator.backward(F.mse_loss(model(x), y))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert model.weight.isfinite().all()
    accelerate.state.AcceleratorState._reset_state(True)


class Sines(torch.utils.data.Dataset):
    """Rows as a Trainer of transformers takes them."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        return {"input_ids": TOKENS.roll(k)[k % 2], "labels": TOKENS.roll(k)[k % 2]}


@pytest.fixture
def choosing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lets accelerate choose anew, a device by its name."""

    def choose(device: str) -> None:
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        package("accelerate").state.AcceleratorState._reset_state(True)

    yield choose
    package("accelerate").state.AcceleratorState._reset_state(True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"gradient_checkpointing": True}, {"optim": "adafactor"}], ids=str)
def test_the_trainer_of_transformers_chooses_the_device(
    options: dict[str, Any], torch_device: Any, tmp_path: Any, choosing: Callable[[str], None]
) -> None:
    first = llama()
    found = []
    for device in ("cpu", D):
        choosing(device)
        arguments = named("transformers", "TrainingArguments")(
            output_dir=str(tmp_path), max_steps=STEPS, per_device_train_batch_size=2, logging_steps=1, report_to=[],
            disable_tqdm=True, seed=0, learning_rate=1e-3, eval_strategy="steps", eval_steps=5, save_steps=5, **options,
        )  # fmt: skip
        assert arguments.device.type == device
        trainer = named("transformers", "Trainer")(
            model=copy.deepcopy(first), args=arguments, train_dataset=Sines(), eval_dataset=Sines()
        )
        trainer.train()
        assert trainer.model.device.type == device
        log = trainer.state.log_history
        found.append([e.get("loss", e.get("eval_loss")) for e in log if "loss" in e or "eval_loss" in e])
        resumed = named("transformers", "Trainer")(
            model=copy.deepcopy(first), args=arguments, train_dataset=Sines(), eval_dataset=Sines()
        )
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
        found[-1] += [e["loss"] for e in resumed.state.log_history if "loss" in e]
    assert len(found[0]) == 2 * STEPS + 2
    assert found[1] == pytest.approx(found[0], abs=1e-4)


def accelerator() -> Any:
    package("lightning.pytorch")
    from shadergrad.torch.lightning import WebGPUAccelerator

    return WebGPUAccelerator()


@pytest.mark.slow
def test_lightnings_trainer_takes_the_device(torch_device: Any, tmp_path: Any) -> None:
    lightning = package("lightning")
    metrics = package("torchmetrics")

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
            self.accuracy = metrics.Accuracy(task="multiclass", num_classes=3)
            self.losses: list[float] = []

        def training_step(self, batch: Any, index: int) -> Tensor:
            loss = F.cross_entropy(self.layers(batch[0]), batch[1])
            self.losses.append(loss.item())
            self.log("loss", loss, prog_bar=True)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.accuracy(self.layers(batch[0]), batch[1])
            self.log("accuracy", self.accuracy, on_epoch=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), 1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]

    x = torch.linspace(-1, 1, 128).sin().reshape(32, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :3].argmax(1)), 8)
    first = Classifier()
    found = []
    for where, given in (("cpu", "cpu"), (D, accelerator())):
        model = copy.deepcopy(first)
        trainer = lightning.Trainer(
            accelerator=given, max_epochs=3, logger=False, enable_progress_bar=False, devices="auto" if where == D else 1, default_root_dir=tmp_path / where,
            enable_model_summary=False, gradient_clip_val=1.0,
        )  # fmt: skip
        trainer.fit(model, loader, loader)
        assert trainer.strategy.root_device.type == where
        found.append([*model.losses, float(trainer.callback_metrics["accuracy"])])
        again = Classifier.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
        state = model.state_dict()
        assert all(torch.equal(v.cpu(), state[k].cpu()) for k, v in again.state_dict().items())
    assert found[1] == pytest.approx(found[0], abs=1e-4)
    with pytest.raises(RuntimeError, match="there is one device, webgpu:0, not devices=2"):
        lightning.Trainer(accelerator=accelerator(), devices=2)


def test_lightnings_fabric_takes_the_device(torch_device: Any) -> None:
    fabric = package("lightning.fabric").Fabric(accelerator=accelerator(), devices=1)
    assert fabric.device.type == D
    layer = nn.Linear(4, 2)
    model, optimizer = fabric.setup(layer, torch.optim.SGD(layer.parameters(), 0.1))
    x = fabric.to_device(torch.ones(3, 4))
    before = model(x).square().mean()
    fabric.backward(before)
    optimizer.step()
    assert model(x).square().mean().item() < before.item()


@pytest.mark.parametrize(
    "name", ["Accuracy", "F1Score", "AUROC", "ConfusionMatrix", "AveragePrecision", "CalibrationError"]
)
def test_metrics_of_torchmetrics(name: str, torch_device: Any) -> None:
    kind = getattr(package("torchmetrics"), name)
    scores = torch.linspace(-2, 2, 60).sin().reshape(20, 3).softmax(-1)
    labels = torch.arange(20) * 7 % 3
    found = []
    for device in ("cpu", D):
        metric = kind(task="multiclass", num_classes=3).to(device)
        for half in (slice(0, 8), slice(8, 20)):
            metric.update(scores[half].to(device), labels[half].to(device))
        found.append(metric.compute())
        assert found[-1].device.type == device
    torch.testing.assert_close(found[1].cpu(), found[0])


@pytest.mark.parametrize(
    "name", ["MeanSquaredError", "PearsonCorrCoef", "SpearmanCorrCoef", "R2Score", "ExplainedVariance"]
)
def test_metrics_of_numbers_of_torchmetrics(name: str, torch_device: Any) -> None:
    kind = getattr(package("torchmetrics"), name)
    x, y = torch.linspace(-2, 2, 20).sin(), torch.linspace(-1, 3, 20).cos()
    found = [kind().to(d)(x.to(d), y.to(d)).cpu() for d in ("cpu", D)]
    torch.testing.assert_close(found[1], found[0])
