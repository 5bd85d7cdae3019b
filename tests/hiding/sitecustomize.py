"""Python starts with this where its folder is on `PYTHONPATH`, and finds none of the packages that `HIDDEN_PACKAGES` names.

Without that variable it finds only the framework of `KERAS_BACKEND`, as after `pip install "abreast[jax]"`: with all three,
`keras.utils.set_random_seed` alone imports TensorFlow, for seconds in each process.
"""

import os
from importlib.machinery import PathFinder

_FRAMEWORKS = {"jax", "tensorflow", "torch"}
_backend = os.environ.get("KERAS_BACKEND")
_others = _FRAMEWORKS - {_backend} if _backend in _FRAMEWORKS else set()
_hidden = os.environ["HIDDEN_PACKAGES"].split() if "HIDDEN_PACKAGES" in os.environ else _others
_find_spec = PathFinder.find_spec


def _find_others(name, path=None, target=None):  # type: ignore[no-untyped-def]
    return None if name.partition(".")[0] in _hidden else _find_spec(name, path, target)


PathFinder.find_spec = staticmethod(_find_others)  # type: ignore[method-assign, assignment]
