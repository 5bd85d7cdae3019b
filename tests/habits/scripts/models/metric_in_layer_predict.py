"""A layer holds a metric of its activations, which `predict` updates too."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression


class Watched(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.activation = keras.metrics.Mean("activation")

    def call(self, x):
        self.activation.update_state(ops.abs(x))
        return x


x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"), Watched(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
model.layers[1].activation.reset_state()
predicted = model.predict(x, batch_size=16, verbose=0)
model.predict_on_batch(x[:2])
watched = model.layers[1].activation
result = {"predict": predicted, "history": history, "seen": [float(watched.result()), float(watched.count)]}
