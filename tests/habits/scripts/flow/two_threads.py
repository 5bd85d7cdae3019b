"""Two models are trained in two threads at the same time."""

import threading

import keras

from tests.habits.data import regression

x, y = regression()


def make():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.build((None, 6))
    return model


models = [make(), make()]
threads = [
    threading.Thread(
        target=model.fit, args=(x, y), kwargs={"epochs": 3, "batch_size": 16, "shuffle": False, "verbose": 0}
    )
    for model in models
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
result = models
