"""Data of the wrong shape: the error is read, the data mended, and training goes on."""

BACKENDS = ("jax", "torch")  # on TensorFlow plain Keras itself cannot train on after it

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
caught = []
for wrong in (x[:, :4], x[:, :, None]):
    try:
        model.fit(wrong, y, batch_size=10, verbose=0)
    except ValueError as error:
        caught.append(isinstance(error, ValueError))
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"caught": caught, "history": history, "model": model}
