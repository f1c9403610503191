"""torch_geometric: GCN, GAT, GraphSAGE and batches of graphs, trained for three steps."""

import torch
from both import fill, numbers, report, train, whole
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as g
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

NODES = 12


def edges(seed=0):
    return torch.stack([whole(30, below=NODES, seed=seed), whole(30, below=NODES, seed=seed + 1)])


class Net(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.first = kind(6, 8, **options)
        self.second = kind(8 * options.get("heads", 1), 3)

    def forward(self, x, edge_index):
        return self.second(F.relu(self.first(x, edge_index)), edge_index)


def nodes(kind, **options):
    x, y, edge_index = numbers(NODES, 6), whole(NODES, below=3), edges()
    return train(fill(Net(kind, **options)), lambda m: F.cross_entropy(m(x, edge_index), y))


def graphs():
    data = [Data(x=numbers(NODES, 6, seed=k), edge_index=edges(2 * k), y=torch.tensor([k % 2])) for k in range(4)]
    batch = next(iter(DataLoader(data, batch_size=4)))
    conv, head = fill(g.GINConv(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8)))), fill(nn.Linear(8, 2))
    both = nn.ModuleList([conv, head])

    def loss(m):
        return F.cross_entropy(m[1](g.global_mean_pool(m[0](batch.x, batch.edge_index), batch.batch)), batch.y)

    return train(both, loss)


if __name__ == "__main__":
    report(
        gcn=lambda: nodes(g.GCNConv),
        gat=lambda: nodes(g.GATConv, heads=2),
        sage=lambda: nodes(g.SAGEConv),
        graphs=graphs,
    )
