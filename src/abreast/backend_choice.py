"""The framework that Keras will use: the user's choice, or an installed one.

Without a choice, Keras alone uses TensorFlow, installed or not. `import abreast` calls `watch_keras`, so that the choice is made
when Keras is imported: until then a script may set `KERAS_BACKEND`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from abreast.import_hooks import found

_VARIABLE = "KERAS_BACKEND"
_DEFAULT_OF_KERAS = "tensorflow"
_KERAS_ALONE = ("numpy", "openvino")  # other backends of Keras, which abreast does not change


def choose_backend() -> str:
    """The framework for Keras in this environment. If Keras would use another one, sets `KERAS_BACKEND` and reports it.

    Raises `NotInstalledError` if `KERAS_BACKEND` names a framework that is not installed, or if none is installed, and
    `BackendError` for a name that Keras does not know.
    """
    chosen, why = backend_choice()
    if why is not None:
        from abreast.stderr import tell

        os.environ[_VARIABLE] = chosen
        tell(why)
    return chosen


def backend_choice() -> tuple[str, str | None]:
    """The framework that `choose_backend` would choose, and the line that it would print; changes nothing."""
    from abreast.backend.registry import BACKENDS, installed, no_backend, require

    if asked := os.environ.get(_VARIABLE):
        if asked in BACKENDS:
            require(asked, f"{_VARIABLE}=")
        _check_known(asked, f"{_VARIABLE}={asked}")
        return asked, None
    there: tuple[str, ...] = installed()
    configured = _configured()
    alone = configured or _DEFAULT_OF_KERAS
    if configured is not None:
        _check_known(configured, f'"backend": "{configured}" in {configuration_file()}')
    if alone in there or alone not in BACKENDS:
        return alone, None
    if not there:
        raise no_backend()
    chosen = _DEFAULT_OF_KERAS if _DEFAULT_OF_KERAS in there else there[0]
    return chosen, _line(chosen, there, alone, configured is not None)


def _check_known(name: str, choice: str) -> None:
    """Raise `BackendError` for an unknown framework. `choice`: the words with which the user chose it."""
    from abreast.backend.registry import BACKENDS
    from abreast.errors import BackendError
    from abreast.nearest import did_you_mean

    if name not in (*BACKENDS, *_KERAS_ALONE):
        raise BackendError(f"{choice}: Keras has no backend of that name", did_you_mean(name, BACKENDS))


def _line(chosen: str, there: tuple[str, ...], alone: str, is_configured: bool) -> str:
    from abreast.backend.registry import title

    whose = f"the backend in {configuration_file()}" if is_configured else "the default of Keras"
    names = " and ".join(title(name) for name in there)
    return (
        f"Keras runs on {title(chosen)}: {names} {'is' if len(there) == 1 else 'are'} installed, and {title(alone)}, "
        f"{whose}, is not; {_VARIABLE}={chosen} leaves out this line"
    )


def _configured() -> str | None:
    """The backend in Keras's configuration file; None if there is no file, or Keras could not read it."""
    import json

    try:
        with open(configuration_file()) as file:
            return str(json.load(file)["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def configuration_file(environ: Mapping[str, str] = os.environ) -> str:
    """The path of Keras's own configuration, as in `keras/src/backend/config.py`."""
    home = os.path.expanduser("~")
    folder = environ.get("KERAS_HOME") or os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    return os.path.expanduser(os.path.join(folder, "keras.json"))


def watch_keras() -> None:
    """Make the import of Keras begin with `choose_backend`."""
    if "keras" not in sys.modules:
        sys.meta_path.insert(0, _BeforeKeras())


class _BeforeKeras:
    """Finds Keras like the later finders, and chooses the backend when the module is executed, not when it is found."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "keras":
            return None
        return found(self, self._execute, fullname, path, target)

    def _execute(self, plain: Any, module: Any) -> None:
        choose_backend()
        plain(module)
