"""The learning rate and the norm of the weights as metrics (common at Kaggle), with a schedule."""

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX cannot return the rate

import keras
from keras import ops

from tests.habits.data import regression

x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5))


def rate(y_true, y_pred):
    return optimizer.learning_rate


def norm(y_true, y_pred):
    return ops.sum(ops.square(model.layers[-1].kernel))


model.compile(optimizer, "mse", metrics=[rate, norm, "mae"])
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
