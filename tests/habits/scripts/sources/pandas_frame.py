"""A pandas DataFrame and a Series."""

NEEDS = ("pandas",)

import keras
import pandas as pd

from tests.habits.data import regression

x, y = regression()
frame = pd.DataFrame(x, columns=list("abcdef")).assign(target=y[:, 0])
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(frame[list("abcdef")], frame["target"], epochs=2, batch_size=16, validation_split=0.2, verbose=0)
result = {"model": model, "history": history}
