"""An optimizer divides the gradients by their norm in `apply_gradients`, as optimizers of Keras 2 did."""

import keras
from keras import ops

from tests.habits.data import regression


class Normed(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars):
        gradients, variables = zip(*grads_and_vars, strict=True)
        norm = ops.sqrt(sum(ops.sum(ops.square(gradient)) for gradient in gradients))
        return super().apply_gradients([(g / norm, v) for g, v in zip(gradients, variables, strict=True)])


x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(Normed(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
