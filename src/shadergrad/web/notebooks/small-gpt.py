# %% [markdown]
# # Fine-tune a small GPT
#
# A transformer of two layers learns the next character from the documentation of Python's own functions, then continues with another text.
# Everything happens in this page.

# %%
import builtins
import codecs
import contextlib
import inspect
import io

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn

device = "webgpu" if sg.devices.adapters() else "cpu"
first = "\n".join(inspect.getdoc(value) or "" for value in vars(builtins).values() if inspect.isroutine(value))
with contextlib.redirect_stdout(io.StringIO()):
    import this
second = codecs.decode(this.s, "rot13")
letters = sorted(set(first + second))
print(len(first), "characters, then", len(second), "of", len(letters), "kinds")

# %%
length, width, heads = 64, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (part.reshape(n, t, heads, -1).transpose(1, 2) for part in self.parts(self.before(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.after(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(letters), width), nn.Embedding(length, width)
        self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(width, len(letters))

    def forward(self, x):
        return self.head(self.blocks(self.tokens(x) + self.places.weight))


sg.manual_seed(0)
model = Gpt().to(device)
optimizer = sg.optim.AdamW(model.parameters(), lr=2e-3)


@sg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    return loss


# %%
number = {letter: k for k, letter in enumerate(letters)}
draw = np.random.default_rng(0)


def train(text, steps, batch=16):
    codes = np.array([number[letter] for letter in text], np.int32)
    for k in range(steps):
        rows = draw.integers(0, len(codes) - length - 1, batch)[:, None] + np.arange(length + 1)
        x, y = codes[rows[:, :-1]], codes[rows[:, 1:]]
        loss = step(sg.tensor(x, device=device), sg.tensor(y, device=device))
        if k % 10 == 0:
            sg.web.plot(loss=loss.item())


@sg.compile
def logits(x):
    with sg.no_grad():
        return model(x)


def written(start, count=120):
    """What the model writes after a start, letter by letter."""
    codes = [number[letter] for letter in start]
    for _ in range(count):
        seen = codes[-length:]
        x = np.array([seen + [0] * (length - len(seen))], np.int32)
        row = logits(sg.tensor(x, device=device)).numpy()[0, len(seen) - 1].astype(np.float64)
        parts = np.exp((row - row.max()) / 0.7)
        codes.append(int(draw.choice(len(letters), p=parts / parts.sum())))
    return "".join(letters[code] for code in codes)


# %%
steps = 300
train(first, steps)
print(written("Return "))

# %% [markdown]
# The same model continues with the second text, at a smaller rate.

# %%
for group in optimizer.param_groups:
    group["lr"] = 1e-3
train(second, steps // 2)
print(written("Beautiful "))
