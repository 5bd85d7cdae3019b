"""A model with an optional input gets None for it, in `fit`, `evaluate` and `predict`."""

import keras

from tests.habits.data import regression

x, y = regression(rows=46)
first = keras.Input((6,), name="x")
optional = keras.Input((6,), name="o", optional=True)


class AddIfGiven(keras.layers.Layer):
    def call(self, x, o=None):
        return x if o is None else x + o


model = keras.Model({"x": first, "o": optional}, keras.layers.Dense(1)(AddIfGiven()(first, optional)))
model.compile(keras.optimizers.SGD(0.1), "mse")
data = {"x": x, "o": None}
history = model.fit(data, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "evaluate": model.evaluate(data, y, batch_size=16, verbose=0)}
result["predict"] = model.predict(data, batch_size=16, verbose=0)
