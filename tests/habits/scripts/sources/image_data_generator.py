"""A `keras.utils.Sequence`, under its old name, that a colleague wrote for Keras 2."""

import keras
import numpy as np

from tests.habits.data import images


class Flow(keras.utils.Sequence):
    def __init__(self, x, y, batch_size):
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self):
        return int(np.ceil(len(self.x) / self.batch_size))

    def __getitem__(self, index):
        part = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return self.x[part][:, ::-1], self.y[part]


model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
history = model.fit(Flow(*images(), 8), epochs=2, shuffle=False, verbose=0)
result = {"model": model, "history": history}
