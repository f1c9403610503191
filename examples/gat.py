"""Attention between neighbours of a graph learns whom to believe: half of what each person knows of others is wrong.

Velickovic et al., Graph attention networks, 2017 (arXiv:1710.10903). Neighbours of another kind carry misleading features; the network
learns to look away from them.
Run: shadergrad run examples/gat.py [--compile], or python examples/gat.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

NODES, GROUPS, FEATURES, HIDDEN, HEADS, STEPS = 200, 4, 16, 8, 4, 200


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features: int, out_features: int, concat: bool = True) -> None:
        super().__init__()
        self.out_features, self.concat = out_features, concat
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(0.2)

    def forward(self, h: Tensor, adj: Tensor) -> Tensor:
        Wh = torch.mm(h, self.W)
        Wh1 = torch.matmul(Wh, self.a[: self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features :, :])
        e = self.leakyrelu(Wh1 + Wh2.T)
        attention = F.softmax(torch.where(adj > 0, e, -9e15 * torch.ones_like(e)), dim=1)
        attention = F.dropout(attention, 0.2, training=self.training)
        h_prime = torch.matmul(attention, Wh)
        return F.elu(h_prime) if self.concat else h_prime


class GAT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attentions = [GraphAttentionLayer(FEATURES, HIDDEN) for _ in range(HEADS)]
        for i, attention in enumerate(self.attentions):
            self.add_module(f"attention_{i}", attention)
        self.out_att = GraphAttentionLayer(HIDDEN * HEADS, GROUPS, concat=False)

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        return F.log_softmax(self.out_att(x, adj), dim=1)


def network() -> tuple[Tensor, Tensor, Tensor]:
    """Features (n, FEATURES), edges (n, n) with loops, and groups (n,). A group shows in the features of all its members, faintly."""
    labels = torch.arange(NODES) % GROUPS
    chance = torch.where(labels[:, None] == labels[None, :], 0.08, 0.027)
    edges = torch.triu((torch.rand(NODES, NODES) < chance).float(), diagonal=1)
    centers = torch.randn(GROUPS, FEATURES)
    return centers[labels] + 1.5 * torch.randn(NODES, FEATURES), edges + edges.t() + torch.eye(NODES), labels


def build(device: str) -> GAT:
    return GAT().to(device)


def training(model: GAT, device: str, compiled: bool = False, data=None) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    features, adj, labels = (x.to(device) for x in data or network())
    known = torch.arange(NODES // 2).to(device)  # half of the people
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

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
    unknown = slice(NODES // 2, None)
    print(f"of the other half {100 * found[unknown].eq(labels[unknown]).float().mean().item():.1f} % in their group")
