"""An activity penalty by `add_loss` of a mean, and Keras's own activity regularizer."""

import keras

from tests.habits.data import regression


class Penalty(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


x, y = regression()
model = keras.Sequential(
    [keras.Input((6,)), keras.layers.Dense(8, "relu", activity_regularizer="l1"), Penalty(), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
