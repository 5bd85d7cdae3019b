"""A loop of one's own with `backward`, before and after `fit`, with an optimizer of PyTorch's."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")


def loop():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for start in range(0, 48, 16):
        loss = torch.mean(
            (model(torch.from_numpy(x[start : start + 16])) - torch.from_numpy(y[start : start + 16])) ** 2
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss)


losses = [loop()]
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
losses.append(loop())
again = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "losses": losses, "history": history, "again": again}
