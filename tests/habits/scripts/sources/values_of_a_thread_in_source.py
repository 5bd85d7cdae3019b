"""A generator and a data set that read values of the thread in which the script runs."""

BACKENDS = ("jax", "torch")  # plain Keras on TensorFlow runs them in threads of tf.data

import contextvars
import threading

import keras

from tests.habits.data import regression

values, factor = threading.local(), contextvars.ContextVar("factor", default=1.0)
values.scale = 0.5
factor.set(0.7)


def by_thread():
    for number in range(5):
        yield getattr(values, "scale", 1.0) * x[8 * number : 8 * number + 8], y[8 * number : 8 * number + 8]


def by_context():
    for number in range(5):
        yield factor.get() * x[8 * number : 8 * number + 8], y[8 * number : 8 * number + 8]


x, y = regression()
result = {}
for source in (by_thread, by_context):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    result[source.__name__] = [model.fit(source(), verbose=0), *model.get_weights()]
