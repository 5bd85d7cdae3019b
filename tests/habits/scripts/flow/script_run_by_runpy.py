"""`runpy.run_path` runs the script that makes and trains the model, with classes and functions of its own."""

import runpy
import tempfile
from pathlib import Path

CODE = """
import keras
from keras import layers, ops

from tests.habits.data import regression

SCALE = 2.0

class Scaled(layers.Layer):
    def call(self, inputs):
        return SCALE * inputs

def loss(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred), axis=-1) * SCALE

x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), Scaled(), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), loss)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
"""

file = Path(tempfile.mkdtemp()) / "inner.py"
file.write_text(CODE)
found = runpy.run_path(str(file))
result = {"model": found["model"], "histories": [found["history"]]}
