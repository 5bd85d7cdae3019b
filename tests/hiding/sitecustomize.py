"""Python starts with this where its folder is on `PYTHONPATH`, and finds none of the packages that `HIDDEN_PACKAGES` names."""

import os
from importlib.machinery import PathFinder

_hidden = os.environ.get("HIDDEN_PACKAGES", "").split()
_find_spec = PathFinder.find_spec


def _find_others(name, path=None, target=None):  # type: ignore[no-untyped-def]
    return None if name.partition(".")[0] in _hidden else _find_spec(name, path, target)


PathFinder.find_spec = staticmethod(_find_others)  # type: ignore[method-assign, assignment]
