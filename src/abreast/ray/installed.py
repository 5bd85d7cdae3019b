"""Ray itself, imported when it is needed."""

from __future__ import annotations

import importlib
import os
import re
from types import ModuleType

from abreast.errors import BackendError, NotInstalledError
from abreast.installing import install_command

_OLDEST = (2, 51)  # the first version in which the present API of Ray Train is the default


def ray_train() -> ModuleType:
    """The module `ray.train`. Raises `NotInstalledError` without Ray, and `BackendError` for a version that is too old."""
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    try:
        found = importlib.import_module("ray")
        version = str(found.__version__)
    except (ImportError, AttributeError):
        raise NotInstalledError("Ray is not installed", install_command("ray")) from None
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise BackendError(f"Ray {version} is installed, and abreast needs {oldest} or newer", install_command("ray"))
    try:
        return importlib.import_module("ray.train")
    except ImportError as error:
        raise NotInstalledError(f"Ray Train cannot be imported: {error}", install_command("ray")) from None
