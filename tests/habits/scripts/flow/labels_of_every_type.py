"""Labels and weights of many types (small integers, Booleans, half precision) with a loss and a metric of one's own."""

import keras
import numpy as np
from keras import ops

from tests.habits.data import classification


def loss(y_true, y_pred):
    labels = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), 3)
    return -ops.mean(ops.sum(labels * ops.log(y_pred + 1e-6), axis=-1)) + 0.1 * ops.max(y_pred)


def largest(y_true, y_pred):
    return ops.max(ops.cast(y_true, "float32")) + ops.max(y_pred)


x, y = classification(rows=46)
result = {}
for kind in ("int8", "int16", "uint16", "float16", "bool"):
    keras.utils.set_random_seed(2)
    labels, weights = y.astype(kind), (np.arange(46) % 2).astype(kind)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, "softmax")])
    model.compile("sgd", loss, metrics=[largest], weighted_metrics=["sparse_categorical_accuracy"])
    model.fit(x, labels, sample_weight=weights, batch_size=14, epochs=1, shuffle=False, verbose=0)
    result[kind] = [model, model.evaluate(x, labels, batch_size=10, verbose=0)]
