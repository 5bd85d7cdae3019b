"""An optimizer of one's own adds noise of `keras.random` to the gradients: every replica adds the same."""

import keras
from keras import ops

from tests.habits.data import regression


class Noisy(keras.optimizers.SGD):
    def __init__(self, rate):
        super().__init__(rate)
        self.noise = keras.random.SeedGenerator(7)

    def update_step(self, gradient, variable, learning_rate):
        noise = keras.random.normal(ops.shape(variable), seed=self.noise, dtype=variable.dtype)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * (gradient + 0.3 * noise))


x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(Noisy(0.05), "mse")
history = model.fit(x, y, batch_size=12, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
