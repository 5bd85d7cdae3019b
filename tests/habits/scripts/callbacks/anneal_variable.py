"""A callback anneals a `keras.Variable` that a layer of the model reads."""

import keras

from tests.habits.data import regression


class Scale(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones", trainable=False, name="scale")

    def call(self, inputs):
        return inputs * self.scale


class Anneal(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        layer = self.model.layers[1]
        layer.scale.assign(layer.scale * 0.9)


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), Scale(), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=8, callbacks=[Anneal()], verbose=0)
result = {"model": model, "history": history}
