"""A function in a layer that leaves its features in a global dictionary, from which the loss takes them."""

EXPECTED = {"tensorflow": "announced: reads it", "torch": "announced: reads it"}

import keras
from keras import layers, ops

from tests.habits.data import regression

kept = {}


def features(inputs):
    kept["features"] = ops.tanh(inputs)
    return kept["features"]


def loss(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred)) + ops.sum(ops.square(ops.mean(kept["features"], axis=0)))


x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.Lambda(features), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), loss)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
