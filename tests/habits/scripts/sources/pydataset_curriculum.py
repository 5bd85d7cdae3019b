"""A callback makes the examples of a `PyDataset` harder from epoch to epoch."""

import keras

from tests.habits.data import regression


class Curriculum(keras.utils.PyDataset):
    noise = 0.0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        part = slice(index * 10, index * 10 + 10)
        return x[part] * (1 + self.noise), y[part]


class Harder(keras.callbacks.Callback):
    def __init__(self, source):
        super().__init__()
        self.source = source

    def on_epoch_end(self, epoch, logs=None):
        self.source.noise += 0.5


x, y = regression()
source = Curriculum()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(source, epochs=3, shuffle=False, callbacks=[Harder(source)], verbose=0)
result = {"model": model, "history": history}
