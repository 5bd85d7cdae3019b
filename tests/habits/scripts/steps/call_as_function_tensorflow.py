"""A model and a layer whose `call` is under `tf.function`; the layer relates the rows of a batch."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: related to one another by Centred"}

import keras
import tensorflow as tf

from tests.habits.data import regression


class Centred(keras.layers.Layer):
    @tf.function
    def call(self, x):
        return x - tf.reduce_mean(x, axis=0)


class Decorated(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, "tanh")
        self.centred = Centred(name="centred")
        self.out = keras.layers.Dense(1)
        # Plain Keras keeps for ever the values that weights have in the first trace, if that makes them.
        for layer, size in ((self.hidden, 6), (self.out, 8)):
            layer.build((None, size))

    @tf.function
    def call(self, x):
        return self.out(self.centred(self.hidden(x)))


x, y = regression()
model = Decorated()
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, validation_data=(x[:20], y[:20]), verbose=0)
result = {"model": model, "history": history, "prediction": model.predict(x, verbose=0)}
