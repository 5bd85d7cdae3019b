"""A callback that changes settings of a module, which layers find by names that are in variables or texts."""

import importlib
import sys
import tempfile
from pathlib import Path

import keras

from tests.habits.data import regression

folder = Path(tempfile.mkdtemp())
(folder / "settings_of_habit.py").write_text(
    "class Options: pass\noptions = Options()\noptions.scale = 1.0\nfactor = 1.0\n"
)
sys.path.insert(0, str(folder))
settings = importlib.import_module("settings_of_habit")


class Scaled(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.key = "options"

    def call(self, x):
        return x * getattr(settings, self.key).scale


class Shifted(keras.layers.Layer):
    def call(self, x):
        return x + importlib.import_module("settings_of_habit").factor


class Anneal(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        settings.options.scale = settings.factor = 0.5 / (epoch + 1)


x, y = regression(rows=64)
layers = [keras.layers.Dense(4, "tanh"), Scaled(), Shifted(), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((6,)), *layers])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0, callbacks=[Anneal()])
result = {"history": history, "model": model}
