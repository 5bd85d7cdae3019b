"""An optimizer that holds two others: one for kernels, one for biases."""

import keras

from tests.habits.data import regression


class Two(keras.optimizers.Optimizer):
    def __init__(self):
        super().__init__(learning_rate=0.01)
        self.kernels = keras.optimizers.Adam(0.01)
        self.biases = keras.optimizers.SGD(0.1, momentum=0.9)

    def build(self, variables):
        super().build(variables)
        self.kernels.build([each for each in variables if len(each.shape) > 1])
        self.biases.build([each for each in variables if len(each.shape) < 2])

    def apply(self, grads, trainable_variables=None):
        pairs = list(zip(grads, trainable_variables or self._trainable_variables, strict=True))
        for optimizer, chosen in (
            (self.kernels, [pair for pair in pairs if len(pair[1].shape) > 1]),
            (self.biases, [pair for pair in pairs if len(pair[1].shape) < 2]),
        ):
            optimizer.apply([gradient for gradient, _ in chosen], [weight for _, weight in chosen])
        self._iterations.assign_add(1)


x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
model.compile(Two(), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model.get_weights(), "history": history, "steps": int(model.optimizer.iterations)}
