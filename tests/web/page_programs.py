"""Programs that a page's Python runs, and this one: each trains a little on a device, and leaves its losses in `losses`."""

HEAD = """
import numpy as np
import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import load_digits

sg.manual_seed(0)
draw = np.random.default_rng(0)

def trained(model, loss_of, batches, lr=1e-2):
    model.to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=lr)

    @sg.compile
    def step(*batch):
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss

    return [step(*(sg.tensor(part, device=device) for part in batch)).item() for batch in batches]
"""
XOR = """
x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([[0], [1], [1], [0]], np.float32)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
losses = trained(model, lambda model, x, y: F.mse_loss(model(x), y), [(x, y)] * 60, lr=0.05)
assert losses[-1] < 0.1 * losses[0]
"""
EAGER = """
x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([[0], [1], [1], [0]], np.float32)
x, y = sg.tensor(x, device=device), sg.tensor(y, device=device)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
DIGITS = """
images, labels, *_ = load_digits()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
batches = [(images[k : k + 64], labels[k : k + 64]) for k in range(0, 1024, 64)]
losses = trained(model, lambda model, x, y: F.cross_entropy(model(x), y), batches)
assert losses[-1] < 0.7 * losses[0]
"""
CNN = """
images, labels, *_ = load_digits()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10)
)
batches = [(images[k : k + 16].reshape(16, 1, 8, 8), labels[k : k + 16]) for k in range(0, 64, 16)]
losses = trained(model, lambda model, x, y: F.cross_entropy(model(x), y), batches)
"""
LSTM = """
class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(2, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])

batches = [(x, x.sum((1, 2))[:, None]) for x in draw.standard_normal((4, 8, 5, 2)).astype(np.float32)]
losses = trained(Sums(), lambda model, x, y: F.mse_loss(model(x), y), batches)
"""
GPT = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.after = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (
            part.reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
            for part in self.parts(self.before(x)).chunk(3, -1)
        )
        x = x + self.joined(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.after(x))))

class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.block = nn.Embedding(11, 16), nn.Embedding(8, 16), Block(16, 2)
        self.head = nn.Linear(16, 11)

    def forward(self, x):
        return self.head(self.block(self.tokens(x) + self.places.weight))

texts = draw.integers(0, 11, (3, 4, 9)).astype(np.int32)
batches = [(text[:, :-1], text[:, 1:]) for text in texts]
losses = trained(Gpt(), lambda model, x, y: F.cross_entropy(model(x).reshape(-1, 11), y.reshape(-1)), batches)
"""
PROGRAMS = {"xor": XOR, "eager": EAGER, "digits": DIGITS, "cnn": CNN, "lstm": LSTM, "gpt": GPT}


def program(name: str, device: str) -> str:
    return f"device = {device!r}\n{HEAD}{PROGRAMS[name]}"
