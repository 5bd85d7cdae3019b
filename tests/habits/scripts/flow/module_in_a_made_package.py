"""A layer in a module that the script loads by the path of its file, into a package that it makes by hand."""

import importlib.util
import sys
import tempfile
import types
from pathlib import Path

import keras
from keras import layers

from tests.habits.data import regression

CODE = """
from keras import layers

class Scaled(layers.Layer):
    def call(self, inputs):
        return 2.0 * inputs
"""

file = Path(tempfile.mkdtemp()) / "blocks.py"
file.write_text(CODE)
sys.modules["made_package"] = types.ModuleType("made_package")
spec = importlib.util.spec_from_file_location("made_package.blocks", file)
blocks = importlib.util.module_from_spec(spec)
sys.modules["made_package.blocks"] = blocks
spec.loader.exec_module(blocks)

x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), blocks.Scaled(), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, verbose=0, shuffle=False)
result = {"model": model, "history": history}
