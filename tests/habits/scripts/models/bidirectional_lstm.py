"""A bidirectional LSTM with masks, per-step targets and per-step weights."""

# With a mask and weights, Keras's loss on PyTorch multiplies the weights in place (`apply_mask`), and its metrics see that.
WITHOUT = {"torch": ["result/history/accuracy"]}

import keras
import numpy as np

from tests.habits.data import tokens

ids, _ = tokens()
model = keras.Sequential(
    [
        keras.layers.Embedding(20, 4, mask_zero=True),
        keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True)),
        keras.layers.TimeDistributed(keras.layers.Dense(3, "softmax")),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
weights = np.where(ids == 3, 2.0, 1.0)
history = model.fit(ids, ids % 3, sample_weight=weights, epochs=2, batch_size=8, verbose=0)
result = {"model": model, "history": history}
