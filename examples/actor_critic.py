"""One network balances a pole and another part of it says how long it will stand; each learns from the other.

Konda and Tsitsiklis, Actor-critic algorithms, 1999; Mnih et al., 2016 (arXiv:1602.01783). The environment is here.
Run: shadergrad run examples/actor_critic.py, or python examples/actor_critic.py with PyTorch.
"""

import math
from collections import namedtuple
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical

WIDTH, GAMMA, LIMIT, EPISODES = 64, 0.99, 200, 200

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class CartPole:
    """A pole on a cart, pushed left or right; 1 is earned for each step that it stands. Barto, Sutton and Anderson, 1983."""

    def reset(self) -> Tensor:
        self.state = (0.1 * torch.rand(4) - 0.05).tolist()
        self.steps = 0
        return torch.tensor(self.state)

    def step(self, action: int) -> tuple[Tensor, float, bool]:
        x, v, angle, turn = self.state
        force, sin, cos = (10.0 if action == 1 else -10.0), math.sin(angle), math.cos(angle)
        push = (force + 0.05 * turn * turn * sin) / 1.1
        spin = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        slide = push - 0.05 * spin * cos / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * slide, angle + 0.02 * turn, turn + 0.02 * spin]
        self.steps += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095 or self.steps >= LIMIT
        return torch.tensor(self.state), 1.0, done


class Policy(nn.Module):
    """States (4,) to the probabilities of both actions and the value."""

    def __init__(self) -> None:
        super().__init__()
        self.affine1 = nn.Linear(4, WIDTH)
        self.action_head = nn.Linear(WIDTH, 2)
        self.value_head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def build(device: str) -> Policy:
    return Policy().to(device)


def training(model: Policy, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """Of each episode the loss and its length, (2,), without end. Episodes differ in length, so nothing is compiled."""
    env = CartPole()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    while True:
        saved, rewards, done, state = [], [], False, env.reset()
        while not done:
            probs, value = model(state.to(device))
            m = Categorical(probs)
            action = m.sample()
            saved.append(SavedAction(m.log_prob(action), value))
            state, reward, done = env.step(int(action.item()))
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in rewards[::-1]:
            total = reward + GAMMA * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = ((returns - returns.mean()) / (returns.std() + 1e-6)).to(device)
        policy_losses, value_losses = [], []
        for (log_prob, value), R in zip(saved, returns):
            policy_losses.append(-log_prob * (R - value.item()))
            value_losses.append(F.smooth_l1_loss(value, R.unsqueeze(0)))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        yield torch.stack([loss.detach().cpu(), torch.tensor(float(len(rewards)))])


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths = []
    for k, (_, length) in zip(range(EPISODES), training(build(device), device)):
        lengths.append(length.item())
        if (k + 1) % 25 == 0:
            print(f"episode {k + 1:3}  stood {sum(lengths[-25:]) / 25:.0f} of {LIMIT} steps, on average of 25")
