"""ignite: a supervised trainer with an evaluator, metrics and handlers."""

import torch
from both import fill, numbers, report, whole
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def engine():
    model = fill(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(numbers(16, 5), whole(16, below=3)), batch_size=4)
    criterion = nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion)
    evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "loss": Loss(criterion)})
    RunningAverage(output_transform=lambda x: x).attach(trainer, "average")
    found = []

    @trainer.on(Events.ITERATION_COMPLETED)
    def remember(engine):
        found.append(engine.state.output)

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate(engine):
        evaluator.run(loader)
        found.extend(
            [evaluator.state.metrics["accuracy"], evaluator.state.metrics["loss"], engine.state.metrics["average"]]
        )

    trainer.run(loader, max_epochs=2)
    return found


if __name__ == "__main__":
    report(engine=engine)
