"""Batches of ever new lengths, as of sentences sorted by length."""

import keras
import numpy as np

from tests.habits.data import tokens

ids, y = tokens(rows=24, length=9)


def batches():
    for length in (3, 5, 7, 9):
        part = slice((length - 3) * 3, (length - 3) * 3 + 6)
        yield ids[part, :length], y[part, None]


model = keras.Sequential([keras.Input((None,)), keras.layers.Embedding(20, 4), keras.layers.GlobalMaxPooling1D()])
model.add(keras.layers.Dense(1, "sigmoid"))
model.compile("sgd", "binary_crossentropy")
losses = [model.train_on_batch(*batch) for batch in batches()]
result = {"model": model, "losses": [float(np.asarray(loss)) for loss in losses]}
