"""Settings of an installed package, which only its own code reads: set before the training, and by a callback."""

BACKENDS = ("torch",)

import pathlib
import sys
import tempfile

import keras

from tests.habits.data import regression
from tests.habits.scaled import Scaled

PACKAGE = """
import keras

_SCALE, _OPTIONS = 1.0, {"scale": 1.0}

class Mode:
    scale = 1.0

class Settings:
    def __init__(self):
        self.scale = 1.0

settings = Settings()

def set_scale(value):
    global _SCALE
    _SCALE = value

_ready, _library = False, None

def _init():
    global _ready, _library
    if not _ready:
        _ready, _library = True, iter([1.0])

def scale():
    _init()
    assert _library is not None
    return _SCALE * _OPTIONS["scale"] * Mode.scale * settings.scale
"""
folder = pathlib.Path(tempfile.mkdtemp(), "site-packages")
folder.mkdir()
(folder / "package_with_settings.py").write_text(PACKAGE)
sys.path.insert(0, str(folder))

import package_with_settings as package

CHANGES = {
    "none": lambda: None,
    "global": lambda: package.set_scale(0.7),
    "item": lambda: package._OPTIONS.update(scale=0.8),
    "class": lambda: setattr(package.Mode, "scale", 0.9),
    "object": lambda: setattr(package.settings, "scale", 0.6),
}
x, y = regression()
result = {}
package.set_scale(0.5)
package.scale()  # makes what only this process has
for name, change in CHANGES.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), Scaled(8, package.scale, activation="tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, change=change: change())
    result[name] = model.fit(x, y, epochs=2, batch_size=23, callbacks=[act], verbose=0)
