"""A callback evaluates on a third data set and adds to the logs, for a later callback to stop by."""

import keras

from tests.habits.data import regression


class Third(keras.callbacks.Callback):
    def __init__(self, data):
        super().__init__()
        self.data = data

    def on_epoch_end(self, epoch, logs=None):
        for name, value in self.model.evaluate(*self.data, verbose=0, return_dict=True).items():
            logs[f"third_{name}"] = value


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
stop = keras.callbacks.EarlyStopping("third_mae", mode="min", patience=1, min_delta=0.02)
history = model.fit(x, y, epochs=6, batch_size=8, callbacks=[Third(regression(20, seed=1)), stop], verbose=0)
result = {"model": model, "history": history}
