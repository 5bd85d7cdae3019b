"""Python starts with this where its folder is on `PYTHONPATH`, and finds none of the packages that `HIDDEN_PACKAGES` names.

Without that variable, and with `KERAS_BACKEND`, it finds what `pip install "abreast[jax]"` brings, with that framework: Keras
imports others where it finds them, for seconds in each process. The test fixture `all_frameworks` lets a script find everything.
"""

import os
from importlib.machinery import PathFinder

_FRAMEWORKS = {"jax", "tensorflow", "torch"}
_backend = os.environ.get("KERAS_BACKEND")
_others = _FRAMEWORKS - {_backend} | {"pandas", "sklearn"} if _backend in _FRAMEWORKS else set()
_hidden = os.environ["HIDDEN_PACKAGES"].split() if "HIDDEN_PACKAGES" in os.environ else _others
_find_spec = PathFinder.find_spec


def _find_others(name, path=None, target=None):  # type: ignore[no-untyped-def]
    return None if name.partition(".")[0] in _hidden else _find_spec(name, path, target)


PathFinder.find_spec = staticmethod(_find_others)  # type: ignore[method-assign, assignment]
