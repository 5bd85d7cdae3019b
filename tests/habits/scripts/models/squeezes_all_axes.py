"""`squeeze` without an axis also drops the axis of rows where a device has one row. Plain Keras on TensorFlow fails."""

BACKENDS = ("jax", "torch")

import keras

from tests.habits.data import regression


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return keras.ops.squeeze(self.dense(x))


x, y = regression(rows=27)
model = Net()
model.compile("sgd", "mse", metrics=["mae"])
history = model.fit(x, y[:, 0], batch_size=8, epochs=2, verbose=0)
found = {
    "evaluate": model.evaluate(x, y[:, 0], batch_size=8, verbose=0),
    "predict": model.predict(x, batch_size=8, verbose=0),
}
result = {"model": model, "history": history, **found}
