"""A layer in a module that the script loads by the path of its file; a constant of the module changes between two fits."""

import importlib.util
import sys
import tempfile
from pathlib import Path

import keras
from keras import layers

from tests.habits.data import regression

CODE = """
from keras import layers

SCALE = 2.0

class Scaled(layers.Layer):
    def call(self, inputs):
        return SCALE * inputs
"""

file = Path(tempfile.mkdtemp()) / "blocks.py"
file.write_text(CODE)
spec = importlib.util.spec_from_file_location("blocks_of_mine", file)
blocks = importlib.util.module_from_spec(spec)
sys.modules["blocks_of_mine"] = blocks
spec.loader.exec_module(blocks)

x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), blocks.Scaled(), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
histories = [model.fit(x, y, batch_size=16, verbose=0, shuffle=False).history]
blocks.SCALE = 0.5
model.compile(keras.optimizers.SGD(0.02), "mse")
histories.append(model.fit(x, y, batch_size=16, verbose=0, shuffle=False).history)
result = {"model": model, "histories": histories}
