"""Layers frozen and unfrozen without `compile`, then fits of other batch sizes: on TensorFlow the traced step goes on."""

import keras

from tests.habits.data import regression

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX fails: its optimizer expects the gradients of all variables

x, y = regression(rows=50)
hidden = keras.layers.Dense(6, "tanh")
model = keras.Sequential([keras.Input((6,)), hidden, keras.layers.Dense(1)])
histories = []
for sizes in ((16, 25, 10), (25, 10, 16)):
    hidden.trainable = True
    model.compile(keras.optimizers.SGD(0.1), "mse")
    for size in sizes:
        histories.append(model.fit(x, y, batch_size=size, epochs=2, verbose=0, shuffle=False).history)
        hidden.trainable = not hidden.trainable
    model.run_eagerly = True
    histories.append(model.fit(x, y, batch_size=16, verbose=0, shuffle=False).history)
    model.run_eagerly = False
result = {"model": model, "histories": histories}
