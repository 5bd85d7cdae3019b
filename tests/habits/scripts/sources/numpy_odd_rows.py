"""NumPy arrays whose last batch is smaller, with shuffling."""

import keras

from tests.habits.data import classification

x, y = classification(rows=53)
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history, "predict": model.predict(x, batch_size=7, verbose=0)}
