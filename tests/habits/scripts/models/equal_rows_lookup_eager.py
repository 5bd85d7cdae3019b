"""With `run_eagerly`, devices' rows have equal words in some steps, and a feature that is 0 in all rows of the first batch."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
from keras import layers

from tests.habits.data import tokens

x, y = tokens(rows=44, length=5)
x = x % 20
x[16:32] = np.tile(x[16:20], (4, 1))  # equal on 2 and on 4 devices
kinds = np.where(np.arange(44) < 16, 0, np.arange(44) % 3)[:, None]
words, kind = keras.Input((5,), dtype="int32"), keras.Input((1,), dtype="int32")
hidden = layers.Embedding(20, 6)(words) + layers.Embedding(3, 6)(kind)
model = keras.Model([words, kind], layers.Dense(1)(layers.GlobalAveragePooling1D()(hidden)))
model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
history = model.fit([x, kinds], y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
