"""A network learns from remembered moments what each push of a cart is worth, and so balances a pole.

Mnih et al., Human-level control through deep reinforcement learning, 2015: replay memory, and a target network that follows slowly. The
environment is here.
Run: shadergrad run examples/dqn.py [--compile], or python examples/dqn.py with PyTorch.
"""

import math
import random
import sys
from collections import deque, namedtuple
from collections.abc import Iterator

import torch
import torch.nn as nn
from torch import Tensor

WIDTH, BATCH, MEMORY, GAMMA, TAU, LIMIT, STEPS = 64, 64, 10000, 0.99, 0.01, 200, 12000

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward", "going"))


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


def build(device: str) -> nn.Sequential:
    """States (n, 4) to the value of both actions (n, 2)."""
    return nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)).to(
        device
    )


def training(policy_net: nn.Sequential, device: str, compiled: bool = False, lengths=None) -> Iterator[Tensor]:
    """The loss of each move after the first BATCH, without end; the lengths of episodes go into a list."""
    env, memory, rng = CartPole(), deque(maxlen=MEMORY), random.Random(0)
    target_net = build(device)
    target_net.load_state_dict(policy_net.state_dict())
    criterion = nn.SmoothL1Loss()
    optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)

    def optimize_model(state, action, next_state, reward, going) -> Tensor:
        state_action_values = policy_net(state).gather(1, action)
        with torch.no_grad():
            next_values = target_net(next_state).max(1).values
        expected = reward + GAMMA * going * next_values
        loss = criterion(state_action_values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target_net.parameters(), policy_net.parameters()):
                slow.mul_(1 - TAU).add_(TAU * fast)
        return loss.detach()

    if compiled:
        optimize_model = torch.compile(optimize_model)
    state, moves = env.reset(), 0
    while True:
        if rng.random() > 0.05 + 0.9 * math.exp(-moves / 1000):
            with torch.no_grad():
                action = policy_net(state.to(device).unsqueeze(0)).max(1).indices.item()
        else:
            action = rng.randrange(2)
        next_state, reward, done = env.step(action)
        memory.append(Transition(state, action, next_state, reward, 0.0 if done and env.steps < LIMIT else 1.0))
        moves += 1
        if done and lengths is not None:
            lengths.append(env.steps)
        state = env.reset() if done else next_state
        if len(memory) >= BATCH:
            batch = Transition(*zip(*rng.sample(memory, BATCH)))
            yield optimize_model(
                torch.stack(batch.state).to(device),
                torch.tensor(batch.action).unsqueeze(1).to(device),
                torch.stack(batch.next_state).to(device),
                torch.tensor(batch.reward).to(device),
                torch.tensor(batch.going).to(device),
            )


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths: list[int] = []
    for k, _ in zip(range(STEPS), training(build(device), device, "--compile" in sys.argv, lengths)):
        if (k + 1) % 2000 == 0:
            last = lengths[-10:]
            print(f"move {k + 1:5}  stood {sum(last) / max(len(last), 1):.0f} of {LIMIT} steps, on average of 10")
