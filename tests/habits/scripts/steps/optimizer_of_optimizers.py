"""An optimizer that holds another one, and moves the weights half of the way (Lookahead)."""

import keras

from tests.habits.data import regression


class Half(keras.optimizers.Optimizer):
    def __init__(self, inner):
        super().__init__(learning_rate=0.1)
        self.inner = inner

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.inner.build(variables)
            self.slow = [self.add_variable_from_reference(variable, name="slow") for variable in variables]

    def apply(self, grads, trainable_variables=None):
        self.inner.apply(grads, trainable_variables)
        super().apply(grads, trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        slow = self.slow[self._get_variable_index(variable)]
        self.assign(slow, 0.5 * slow + 0.5 * variable)
        self.assign(variable, slow)


x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(Half(keras.optimizers.SGD(0.1)), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
