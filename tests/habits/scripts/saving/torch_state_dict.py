"""`state_dict` of a model, saved by `torch.save` and loaded again."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=10, verbose=0)
torch.save(model.state_dict(), "state.pt")
model.fit(x, y, batch_size=10, verbose=0)
model.load_state_dict(torch.load("state.pt"))
history = model.fit(x, y, batch_size=10, shuffle=False, verbose=0)
result = {"model": model, "history": history}
