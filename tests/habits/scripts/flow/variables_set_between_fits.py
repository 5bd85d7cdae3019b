"""Between two fits, variables get a regularizer, a constraint, and a rate that the optimizer reads."""

import keras

from tests.habits.data import regression


class Scaled(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient * getattr(variable, "rate", 1.0), variable, learning_rate)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile(Scaled(0.05), "mse")
histories = [model.fit(x, y, epochs=2, batch_size=14, verbose=0)]
first, last = (layer.kernel for layer in model.layers)
first.regularizer, last.constraint, last.rate = keras.regularizers.L1(0.1), keras.constraints.NonNeg(), 0.1
model.compile(Scaled(0.05), "mse")
histories.append(model.fit(x, y, epochs=2, batch_size=14, verbose=0))
last.constraint, last.rate = None, 1.0
histories.append(model.fit(x, y, epochs=2, batch_size=14, verbose=0))
result = {"model": model, "histories": histories}
