"""A network learns by trial to balance a pole: what went well becomes likelier.

Williams, Simple statistical gradient-following algorithms for connectionist reinforcement learning, 1992. The environment is here.
Run: shadergrad run examples/reinforce.py, or python examples/reinforce.py with PyTorch.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical

WIDTH, GAMMA, LIMIT, EPISODES = 64, 0.99, 200, 200


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
    def __init__(self) -> None:
        super().__init__()
        self.affine1 = nn.Linear(4, WIDTH)
        self.affine2 = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=-1)


def build(device: str) -> Policy:
    return Policy().to(device)


def training(policy: Policy, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """Of each episode the loss and its length, (2,), without end. Episodes differ in length, so nothing is compiled."""
    env = CartPole()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    while True:
        states, actions, rewards, done = [env.reset()], [], [], False
        while not done:
            with torch.no_grad():
                action = int(Categorical(policy(states[-1].to(device))).sample().item())
            state, reward, done = env.step(action)
            states.append(state)
            actions.append(action)
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + GAMMA * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = ((returns - returns.mean()) / (returns.std() + 1e-6)).to(device)
        optimizer.zero_grad()
        chosen = Categorical(policy(torch.stack(states[:-1]).to(device))).log_prob(torch.tensor(actions).to(device))
        loss = (-chosen * returns).sum()
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
