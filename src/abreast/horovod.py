"""Horovod in a script whose models abreast places: its optimizer, tape and callbacks raise errors that name them.

Horovod starts a process per device, and averages gradients between them. abreast does so itself, in one process for the script.
Not here: processes that `horovodrun` started (`launchers/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from abreast.after_import import after_import
from abreast.errors import ModelError

# What to write in place of Horovod's lines.
HINT = (
    "take Horovod out: compile the optimizer itself, leave out hvd.init(), its callbacks and `if hvd.rank() == 0`, make "
    "batch_size that of all devices (times hvd.size()), and start with `abreast run --devices N train.py`"
)
_MODULES = ("horovod.keras", "horovod.tensorflow.keras", "horovod.tensorflow", "horovod.torch")
_REFUSED = ("DistributedOptimizer", "DistributedGradientTape")


@contextmanager
def refused() -> Iterator[None]:
    """Inside, a script that imports Horovod cannot make its optimizers, tapes and callbacks."""
    with ExitStack() as stack:
        for name in _MODULES:
            stack.callback(after_import(name, _refuse_functions))
            stack.callback(after_import(f"{name}.callbacks", _refuse_callbacks))
        yield


def refuse(model: Any, callbacks: Any) -> None:
    """Raise `ModelError` if the optimizer or a callback of a placed model is Horovod's."""
    optimizer = getattr(model, "optimizer", None)
    for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if _is_horovods(type(each)):
            raise _error("DistributedOptimizer")
    listed = getattr(callbacks, "callbacks", callbacks) or ()
    for each in listed if isinstance(listed, list | tuple) else [listed]:
        if _is_horovods(type(each)):
            raise _error(f"callbacks.{type(each).__name__}")


def _is_horovods(kind: type) -> bool:
    return any(str(base.__module__).partition(".")[0] == "horovod" for base in kind.__mro__)


def _error(name: str) -> ModelError:
    return ModelError(f"the script uses Horovod's {name}, and abreast combines the devices itself", HINT)


def _refuse_functions(module: ModuleType) -> None:
    for name in _REFUSED:
        if hasattr(module, name):
            setattr(module, name, _raising(name))


def _refuse_callbacks(module: ModuleType) -> None:
    for name, kind in vars(module).copy().items():
        if isinstance(kind, type) and _is_horovods(kind) and name.endswith("Callback"):
            setattr(module, name, type(name, (kind,), {"__init__": _raising(f"callbacks.{name}")}))


def _raising(name: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise _error(name)

    return refused
