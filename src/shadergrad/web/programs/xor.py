import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn

device = "webgpu" if sg.devices.adapters() else "cpu"
print(device, *(adapter.describe() for adapter in sg.devices.adapters()))

sg.manual_seed(0)
x = sg.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]], device=device)
y = sg.tensor([[0.0], [1], [1], [0]], device=device)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer = sg.optim.AdamW(model.parameters(), lr=0.05)


@sg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for k in range(200):
    loss = step(x, y)
    if k % 5 == 0:
        sg.web.plot(loss=loss.item())
print(model(x).flatten().tolist())
