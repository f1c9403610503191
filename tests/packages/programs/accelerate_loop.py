"""accelerate's loop: prepare, accumulate, clip, backward, gather, and a scheduler."""

import torch
from accelerate import Accelerator
from both import fill, numbers, report, whole
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loop():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = fill(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(numbers(16, 5), whole(16, below=3)), batch_size=4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    losses = []
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
    return losses


if __name__ == "__main__":
    report(loop=loop)
