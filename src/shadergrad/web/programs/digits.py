import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import DataLoader, TensorDataset, load_digits

device = "webgpu" if sg.devices.adapters() else "cpu"
sg.manual_seed(0)
images, labels, test_images, test_labels = load_digits()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimizer = sg.optim.AdamW(model.parameters(), lr=3e-3)


@sg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


x, y = sg.tensor(images, device=device), sg.tensor(labels, device=device)
test_x = sg.tensor(test_images, device=device)
for epoch in range(10):
    for k, batch in enumerate(DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)):
        loss = step(*batch)
        if k % 5 == 0:
            sg.web.plot(loss=loss.item())
    right = (model(test_x).argmax(1).numpy() == test_labels).mean()
    print(f"epoch {epoch + 1}: {100 * right:.1f} % of the test digits are right")
