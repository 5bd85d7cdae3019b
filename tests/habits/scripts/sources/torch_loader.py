"""A PyTorch `DataLoader` with a seeded generator."""

NEEDS = ("torch",)

import keras
import torch

from tests.habits.data import classification

x, y = classification()
rows = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
loader = torch.utils.data.DataLoader(
    rows, batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(1), drop_last=True
)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(loader, epochs=2, verbose=0)
result = {"model": model, "history": history}
