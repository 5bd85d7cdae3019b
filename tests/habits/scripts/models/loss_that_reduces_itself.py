"""A loss of one's own that takes the mean in its `call`, and tells Keras of no reduction, as those of a library for images."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Overlap(keras.losses.Loss):
    def __init__(self):
        super().__init__(reduction="none", name="overlap")

    def call(self, y_true, y_pred):
        both = ops.sum(ops.sigmoid(y_true) * ops.sigmoid(y_pred))
        return 1 - 2 * both / ops.sum(ops.sigmoid(y_true) + ops.sigmoid(y_pred)) + ops.mean(ops.square(y_true - y_pred))


x, y = regression()
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), Overlap())
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, validation_data=(x, y))
result = {"model": model, "history": history}
