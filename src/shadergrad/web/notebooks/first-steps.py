# %% [markdown]
# # First steps
#
# A network learns the exclusive or on this device's GPU, in this page. Run the cells from the top: Shift + Enter.

# %%
import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn

device = "webgpu" if sg.devices.adapters() else "cpu"
print(device, *(adapter.describe() for adapter in sg.devices.adapters()))

# %% [markdown]
# Tensors live on a device, and operations between them run there.

# %%
x = sg.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]], device=device)
y = sg.tensor([[0.0], [1], [1], [0]], device=device)
print(x.sum(1, keepdim=True) % 2 == y)

# %% [markdown]
# A model, an optimizer, and a step. `sg.compile` records the step once; each later call replays it on the GPU.

# %%
sg.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer = sg.optim.AdamW(model.parameters(), lr=0.05)


@sg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


# %% [markdown]
# `sg.web.plot` draws a curve below the cell while it runs.

# %%
steps = 200
for k in range(steps):
    loss = step(x, y)
    if k % 5 == 0:
        sg.web.plot(loss=loss.item())

# %%
with sg.no_grad():
    print(model(x).flatten().tolist(), "for", y.flatten().tolist())
