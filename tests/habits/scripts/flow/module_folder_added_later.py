"""A folder is added to `sys.path` after a training, as a notebook does, and a module in it holds the next model's layer."""

import sys
import tempfile
from pathlib import Path

import keras

from tests.habits.data import regression

x, y = regression(rows=44)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
histories = [model.fit(x, y, verbose=0).history]
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "layers_of_a_notebook.py").write_text(
        "import keras\nfactor = 1.0\n\n\nclass Scaled(keras.layers.Layer):\n    def call(self, x):\n        return factor * x\n"
    )
    sys.path.append(folder)
    try:
        import layers_of_a_notebook

        layers_of_a_notebook.factor = 3.0
        other = keras.Sequential([keras.Input((6,)), layers_of_a_notebook.Scaled(), keras.layers.Dense(1)])
        other.compile("sgd", "mse")
        histories.append(other.fit(x, y, epochs=2, verbose=0).history)
    finally:
        sys.path.remove(folder)
        del sys.modules["layers_of_a_notebook"]
result = {"models": [model, other], "histories": histories}
