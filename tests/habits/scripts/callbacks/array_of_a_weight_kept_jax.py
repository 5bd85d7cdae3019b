"""A callback that keeps the array of a weight without a copy, and looks at it in later steps, which plain Keras refuses."""

BACKENDS = ("jax",)

import keras

from tests.habits.data import regression


class Moved(keras.callbacks.Callback):
    first = None

    def on_train_batch_end(self, batch, logs=None):
        kernel = self.model.layers[0].kernel.value
        if self.first is None:
            self.first = kernel
        try:
            keras.ops.norm(kernel - self.first)
        except (RuntimeError, ValueError):  # plain Keras: the step has used up its memory
            self.first = kernel


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[Moved()])
result = {"model": model, "history": history}
