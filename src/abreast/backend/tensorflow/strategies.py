"""Strategies of `tf.distribute` in a script: those that abreast takes over, and those that it refuses, with lines to change.

Inside `taking_over`, the names of the strategies refer to our classes, which the script may call, subclass and compare with.
Keras and TensorFlow themselves see no strategy. Not here: the classes themselves (`own_strategies.py`). Imports TensorFlow and
Keras.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from abreast.backend.tensorflow import own_strategies
from abreast.backend.tensorflow.own_strategies import MirroredStrategy, OneDeviceStrategy, TakenOver
from abreast.errors import ModelError
from abreast.keras_private.tensorflow import TensorFlowTrainer
from abreast.replacing import replaced

_HOSTS = "abreast joins the processes of a launcher itself (docs/guides/launchers.md): "
_MIRRORED = "write tf.distribute.MirroredStrategy(), which abreast takes over, or leave the strategy and its scope out"
# Refused strategies, each with the hint that names a replacement.
_REFUSED = {
    "MultiWorkerMirroredStrategy": _HOSTS + _MIRRORED,
    "ParameterServerStrategy": _HOSTS + _MIRRORED,
    "TPUStrategy": f"abreast trains on GPUs and CPUs: {_MIRRORED}",
    "CentralStorageStrategy": _MIRRORED,
}
_TAKEN_OVER: dict[str, type[TakenOver]] = {
    "MirroredStrategy": MirroredStrategy,
    "OneDeviceStrategy": OneDeviceStrategy,
}
_LIBRARIES = ("abreast.", "keras.", "tensorflow.")
_made_in: WeakKeyDictionary[Any, TakenOver] = WeakKeyDictionary()


@contextmanager
def taking_over(num_devices: int) -> Iterator[None]:
    """Inside, strategies that a script makes use `num_devices` devices of abreast, or are refused."""
    TakenOver.num_devices = num_devices
    with ExitStack() as stack:
        for module, title in _modules():
            for name, plain in vars(module).copy().items():
                if (own := _own(name, plain, f"{title}.{name}")) is not None:
                    stack.enter_context(replaced(module, name, own))
        _show_strategies_to_models(stack)
        try:
            yield
        finally:
            own_strategies.leave_all()


def _modules() -> list[tuple[Any, str]]:
    return [
        (tf.distribute, "tf.distribute"),
        (tf.distribute.experimental, "tf.distribute.experimental"),
        (tf.compat.v2.distribute, "tf.distribute"),
        (tf.compat.v2.distribute.experimental, "tf.distribute.experimental"),
        (tf.compat.v1.distribute, "tf.compat.v1.distribute"),
        (tf.compat.v1.distribute.experimental, "tf.compat.v1.distribute.experimental"),
    ]


def _own(name: str, plain: Any, title: str) -> Any:
    """The object that replaces a name of `tf.distribute`; None if the name stays unchanged."""
    if name in _REFUSED:
        return _refused(plain, title, _REFUSED[name])
    if name in _TAKEN_OVER:
        own = _TAKEN_OVER[name]
        return own if issubclass(own, plain) else _refused(plain, title, _MIRRORED)
    if name == "get_strategy":
        return _in_scope(plain, lambda strategy: strategy)
    if name == "has_strategy":
        return _in_scope(plain, lambda strategy: True)
    if name == "experimental_set_strategy":
        return functools.partial(_set_strategy, plain)
    return None


def _refused(plain: Any, title: str, hint: str) -> Any:
    """A subclass of a refused strategy, whose construction raises `ModelError`."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        raise ModelError(f"the script makes a {title}, which abreast cannot take over", hint)

    return type(plain.__name__, (plain,), {"__init__": init, "__doc__": plain.__doc__})


def _in_scope(plain: Callable[[], Any], own: Callable[[Any], Any]) -> Callable[[], Any]:
    """A replacement of `plain`: in a strategy's scope it gives the script `own(strategy)`, as if that strategy placed models."""

    @functools.wraps(plain)
    def asked() -> Any:
        strategy = own_strategies.around()
        return plain() if strategy is None or _asked_by_library() else own(strategy)

    return asked


def _set_strategy(plain: Callable[[Any], None], strategy: Any) -> None:
    own_strategies.leave_all()
    if isinstance(strategy, TakenOver):
        own_strategies.enter(strategy)
    else:
        plain(strategy)


def _show_strategies_to_models(stack: ExitStack) -> None:
    """Make `model.distribute_strategy` return to the script the strategy in whose scope the model was made."""
    plain_init, plain = TensorFlowTrainer.__init__, TensorFlowTrainer.distribute_strategy

    @functools.wraps(plain_init)
    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        plain_init(model, *args, **kwargs)
        if (strategy := own_strategies.around()) is not None:
            _made_in[model] = strategy

    def distribute_strategy(model: Any) -> Any:
        strategy = _made_in.get(model)
        return plain.fget(model) if strategy is None or _asked_by_library() else strategy

    stack.enter_context(replaced(TensorFlowTrainer, "__init__", init))
    stack.enter_context(replaced(TensorFlowTrainer, "distribute_strategy", property(distribute_strategy)))


def _asked_by_library() -> bool:
    """Whether Keras, TensorFlow or abreast called the function that calls this one."""
    return str(sys._getframe(2).f_globals.get("__name__")).startswith(_LIBRARIES)
