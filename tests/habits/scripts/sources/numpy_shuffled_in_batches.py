"""Arrays whose rows are shuffled within each batch, and a callback that draws from the same global generator."""

import keras
import numpy as np

from tests.habits.data import classification


class Draws(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.drawn = []

    def on_train_batch_end(self, batch, logs=None):
        self.drawn.append(float(np.random.random()))


x, y = classification(rows=53)
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
draws = Draws()
history = model.fit(x, y, epochs=2, batch_size=16, shuffle="batch", verbose=0, callbacks=[draws])
result = {"model": model, "history": history, "drawn": draws.drawn}
