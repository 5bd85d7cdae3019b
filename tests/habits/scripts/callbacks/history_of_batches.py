"""A callback keeps the loss and the learning rate of every batch."""

import keras

from tests.habits.data import regression


class LossHistory(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.losses, self.rates = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        self.rates.append(float(self.model.optimizer.learning_rate))


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "gelu"), keras.layers.Dense(1)])
rate = keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=3, decay_rate=0.7)
model.compile(keras.optimizers.Adam(rate), "mse")
seen = LossHistory()
model.fit(x, y, epochs=2, batch_size=8, callbacks=[seen], verbose=0)
result = {"losses": seen.losses, "rates": seen.rates, "model": model}
