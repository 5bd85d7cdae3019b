"""A callback takes a lock, and a layer asks whether it is held."""

EXPECTED = {"torch": "announced: was taken or released between two steps"}
BACKENDS = ("torch",)

import threading

import keras

from tests.habits.data import regression


class Scaled(keras.layers.Dense):
    def call(self, inputs):
        return (0.5 if lock.locked() else 1.0) * super().call(inputs)


lock = threading.Lock()
x, y = regression()
model = keras.Sequential([keras.Input((6,)), Scaled(8, activation="tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: lock.acquire(blocking=False) and None)
history = model.fit(x, y, epochs=3, batch_size=23, callbacks=[act], verbose=0)
result = {"model": model, "history": history}
