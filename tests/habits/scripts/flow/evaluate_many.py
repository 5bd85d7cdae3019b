"""Evaluation on several sets, as numbers and as a dictionary, with weights, steps and an own batch size."""

import keras
import numpy as np

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, "softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
result = [
    model.evaluate(x, y, verbose=0),
    model.evaluate(x, y, batch_size=7, sample_weight=np.arange(46.0), verbose=0, return_dict=True),
    model.evaluate(x, y, steps=2, batch_size=8, verbose=0),
    model.predict(x, batch_size=9, steps=2, verbose=0),
]
