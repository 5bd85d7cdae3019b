"""A `PyDataset` that shuffles at the end of each epoch."""

import math

import keras
import numpy as np

from tests.habits.data import classification


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.rng, self.order = x, y, np.random.default_rng(0), np.arange(len(x))

    def __len__(self):
        return math.ceil(len(self.x) / 12)

    def __getitem__(self, index):
        rows = self.order[index * 12 : (index + 1) * 12]
        return self.x[rows], self.y[rows]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


x, y = classification()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(Batches(x, y), epochs=3, shuffle=False, verbose=0)
result = {"model": model, "history": history, "evaluate": model.evaluate(Batches(x, y), verbose=0)}
