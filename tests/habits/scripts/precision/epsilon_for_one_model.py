"""Keras's `epsilon`, at which losses clip, larger for a second model, and then as it was for the first one again."""

import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
y = (x[:, :1] > 0).astype("float32")


def made():
    model = keras.Sequential([keras.layers.Dense(1, "sigmoid", kernel_initializer=keras.initializers.Constant(-2.0))])
    model.compile("sgd", keras.losses.BinaryCrossentropy())
    return model


first, second = made(), made()
histories = [first.fit(x, y, epochs=2, batch_size=16, verbose=0) for _ in range(2)]
keras.config.set_epsilon(0.1)
histories.append(second.fit(x, y, epochs=2, batch_size=16, verbose=0))
keras.config.set_epsilon(1e-7)
histories.append(first.fit(x, y, epochs=2, batch_size=16, verbose=0))
result = {"histories": histories, "first": first, "second": second}
