"""An attribute of a class of an installed package that the script sets before it makes the model."""

import sys
from pathlib import Path

import keras

from tests.habits.data import regression

CODE = """
import keras

class Scale(keras.layers.Layer):
    factor = 1.0

    def call(self, inputs):
        return self.factor * inputs
"""

folder = Path("site-packages")
folder.mkdir()
(folder / "scales_of_a_habit.py").write_text(CODE)
sys.path.insert(0, str(folder.resolve()))

import scales_of_a_habit  # type: ignore[import-not-found]

scales_of_a_habit.Scale.factor = 3.0
x, y = regression()
model = keras.Sequential([keras.Input((6,)), scales_of_a_habit.Scale(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
