"""A callback clips all weights after every batch, as for a Wasserstein critic."""

import keras
import numpy as np

from tests.habits.data import regression


class Clip(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.set_weights([np.clip(each, -0.3, 0.3) for each in self.model.get_weights()])


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("rmsprop", "mse")
history = model.fit(x, y, epochs=2, batch_size=8, callbacks=[Clip()], verbose=0)
result = {"model": model, "history": history}
