"""A class of an installed package whose metaclass wraps `call` when the first layer is made, as in a library for quantization."""

EXPECTED = {"torch": "refused: Quantized.call is other code here"}

import sys
from pathlib import Path

import keras

from tests.habits.data import regression

CODE = """
import functools

import keras


class Meta(type(keras.layers.Layer)):
    def __call__(cls, *args, **kwargs):
        if "plain" not in vars(cls):
            cls.plain = plain = cls.call

            @functools.wraps(plain)
            def call(self, inputs):
                return keras.ops.round(16 * plain(self, inputs)) / 16 + inputs

            cls.call = call
        return super().__call__(*args, **kwargs)


class Quantized(keras.layers.Layer, metaclass=Meta):
    def call(self, inputs):
        return 0.5 * inputs
"""

folder = Path("site-packages")
folder.mkdir()
(folder / "quantized_of_a_habit.py").write_text(CODE)
sys.path.insert(0, str(folder.resolve()))

import quantized_of_a_habit  # type: ignore[import-not-found]

x, y = regression()
model = keras.Sequential([keras.Input((6,)), quantized_of_a_habit.Quantized(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
