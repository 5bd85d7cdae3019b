"""The progress bar of Keras, on a terminal that is a file."""

import contextlib
import io
import re

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
with contextlib.redirect_stdout(io.StringIO()) as out:
    model.fit(x, y, epochs=2, batch_size=8, validation_split=0.3, verbose=2)
lines = [re.sub(r"\d+(us|ms|s)(/step|/epoch)?", "TIME", line) for line in out.getvalue().splitlines()]
result = {"lines": len(lines), "head": lines[0], "names": sorted(set(re.findall(r"[a-z_]+(?=: )", out.getvalue())))}
