"""A `PyDataset` with workers that has more batches in later epochs, and weights that tell when a batch was read."""

import keras
import numpy as np

from tests.habits.data import regression

x, y = regression(rows=50)


class Growing(keras.utils.PyDataset):
    def __init__(self, **options):
        super().__init__(**options)
        self.epoch = 0

    def __len__(self):
        return 5 + (self.epoch > 1)

    def __getitem__(self, index):
        rows = (np.arange(8 * index, 8 * index + 8) + 3 * self.epoch) % 50
        return x[rows], y[rows], np.full(8, 1.0 + self.epoch)

    def on_epoch_end(self):
        self.epoch += 1


model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", weighted_metrics=["mae"])
history = model.fit(Growing(workers=2), validation_data=Growing(), epochs=3, verbose=0, shuffle=False)
result = {"model": model, "history": history}
