"""A callback anneals a variable of its own, which a loss reads: the weight of a VAE's divergence, say."""

import keras
from keras import ops

from tests.habits.data import regression


class Anneal(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.weight = keras.Variable(0.1, trainable=False)

    def on_epoch_begin(self, epoch, logs=None):
        self.weight.assign(0.1 + 0.3 * epoch)


anneal = Anneal()


class Penalty(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.weight = anneal.weight

    def call(self, x):
        self.add_loss(anneal.weight * ops.mean(ops.square(x)))
        return x


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Penalty(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=3, batch_size=16, callbacks=[anneal], verbose=0)
result = {"model": model, "history": history}
