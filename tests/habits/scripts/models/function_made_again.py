"""A layer's attribute changes after `fit`, and the step is made again: with `force=True`, or because the script forgot it."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Centered(layers.Layer):
    centers = False

    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True) if self.centers else inputs


x, y = regression(rows=50)
layer = Centered()
model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layer, layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
histories = [model.fit(x, y, batch_size=16, verbose=0, shuffle=False).history]
layer.centers = True
model.make_train_function(force=True)
histories.append(model.fit(x, y, batch_size=16, verbose=0, shuffle=False).history)
layer.centers = False
model.train_function = None
histories.append(model.fit(x, y, batch_size=16, verbose=0, shuffle=False).history)
result = {"model": model, "histories": histories}
