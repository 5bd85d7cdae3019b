"""A callback clips weights through `.data`, as a Wasserstein GAN in PyTorch does."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression


class Clip(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for parameter in self.model.parameters():
            parameter.data.clamp_(-0.05, 0.05)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, callbacks=[Clip()], verbose=0)
result = {"model": model, "history": history}
