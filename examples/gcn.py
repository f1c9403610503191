"""A graph convolution finds the communities of a network of people of whom it knows four.

Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2016 (arXiv:1609.02907). The graph is drawn: four
groups whose members know each other ten times as often as others.
Run: shadergrad run examples/gcn.py [--compile], or python examples/gcn.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter

NODES, GROUPS, FEATURES, HIDDEN, STEPS = 200, 4, 32, 16, 200


class GraphConvolution(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = Parameter(torch.empty(in_features, out_features))
        self.bias = Parameter(torch.empty(out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        stdv = 1.0 / self.weight.size(1) ** 0.5
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input: Tensor, adj: Tensor) -> Tensor:
        support = torch.mm(input, self.weight)
        return torch.mm(adj, support) + self.bias


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gc1 = GraphConvolution(FEATURES, HIDDEN)
        self.gc2 = GraphConvolution(HIDDEN, GROUPS)

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        x = F.dropout(F.relu(self.gc1(x, adj)), 0.5, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def network() -> tuple[Tensor, Tensor, Tensor]:
    """Features (n, FEATURES) that say little, edges (n, n) with loops, normalised by both degrees, and groups (n,)."""
    labels = torch.arange(NODES) % GROUPS
    chance = torch.where(labels[:, None] == labels[None, :], 0.15, 0.015)
    edges = torch.triu((torch.rand(NODES, NODES) < chance).float(), diagonal=1)
    adj = edges + edges.t() + torch.eye(NODES)
    degree = adj.sum(1).pow(-0.5)
    return torch.randn(NODES, FEATURES), degree[:, None] * adj * degree[None, :], labels


def build(device: str) -> GCN:
    return GCN().to(device)


def training(model: GCN, device: str, compiled: bool = False, data=None) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    features, adj, labels = (x.to(device) for x in data or network())
    known = torch.arange(GROUPS).to(device)  # one of each group
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)

    def step(features: Tensor, adj: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.nll_loss(model(features, adj)[known], labels[known])
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        yield step(features, adj)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    data = network()
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv, data)):
        if k % 50 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    model.eval()
    features, adj, labels = data
    with torch.no_grad():
        found = model(features.to(device), adj.to(device)).argmax(1).cpu()
    right = found[GROUPS:].eq(labels[GROUPS:]).float().mean().item()
    print(f"of the {NODES - GROUPS} people it knew nothing of {100 * right:.1f} % in their group")
