"""The states of a `fit`'s callbacks: the result of a callback's `get_state`, or else its attributes.

Lists, dictionaries, sets and arrays are filled in place, because the script may hold them too. Attributes that are neither data
nor unchanged objects are reported once: after a restart they have the values that the script sets.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import keras

from abreast.checkpoints.anew import ANEW
from abreast.checkpoints.other_variables import holds_variables
from abreast.checkpoints.plain import CannotPackError, pack, unpack
from abreast.checkpoints.reached import KERASS_OWN, Reached, code_of_steps, is_compiled
from abreast.errors import CheckpointError
from abreast.feed.values import fill, is_object
from abreast.stderr import tell_once

_SETTINGS = (FunctionType, MethodType, ModuleType, type, keras.Layer, keras.losses.Loss, keras.optimizers.Optimizer)
_METHODS = ("get_state", "set_state")


class CallbackStates:
    """The states of the callbacks of one `fit`. Made when it begins: values that do not change later come from the script."""

    def __init__(self, callbacks: Sequence[Any], model: Any, sources: Sequence[Any] = ()) -> None:
        self.callbacks = tuple(callbacks)
        code, compiled = code_of_steps(model), is_compiled(model)
        self._roots = (*self.callbacks, *([] if compiled else code))
        self._begin = tuple(dict(vars(each)) for each in callbacks)
        self._reached = Reached(self._roots, model, sources, in_steps=code if compiled else [])

    def hold(self) -> None:
        self._reached.hold()

    def let_go(self) -> None:
        self._reached.let_go()

    def read(self, arrays: MutableMapping[str, Any]) -> list[dict[str, Any]]:
        """The state of each callback as JSON; its arrays go to `arrays`."""
        return [
            {"class": _name(callback), **self._state_of(number, callback, arrays)}
            for number, callback in enumerate(self.callbacks)
        ]

    def check(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Raise `CheckpointError` if the classes of the callbacks differ from those in a checkpoint."""
        own, theirs = [_name(each) for each in self.callbacks], [each["class"] for each in saved]
        if own != theirs:
            raise CheckpointError(
                f"the checkpoint has the callbacks {', '.join(theirs) or 'none'}; this fit has {', '.join(own) or 'none'}",
                f"give fit the callbacks of the first run, or {ANEW}",
            )

    def write(self, saved: Sequence[Mapping[str, Any]], arrays: Mapping[str, Any]) -> None:
        """Restore the states that `read` returned."""
        for callback, each in zip(self.callbacks, saved, strict=True):
            if "state" in each:
                callback.set_state(unpack(each["state"], arrays))
            for name, packed in each.get("attributes", {}).items():
                _set(callback, name, unpack(packed, arrays))

    def read_reached(self, arrays: MutableMapping[str, Any]) -> dict[str, Any]:
        """The script's data that callbacks or the code of steps have changed, as JSON."""
        found = {}
        for name, value in self._reached.read().items():
            try:
                found[name] = pack(value, f"reached/{name}", arrays)
            except CannotPackError:
                self._report_reached(name)
        for name in self._reached.lost:
            self._report_reached(name)
        return found

    def write_reached(self, saved: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self._reached.write({name: unpack(packed, arrays) for name, packed in saved.items()})

    def _report_reached(self, name: str) -> None:
        number, _, path = name.partition(".")
        who = _name(self._roots[int(number)]) if number.isdigit() else "a callback"
        tell_once(
            f"checkpoints leave out {path}, which {who} changes: after a restart it is as the script makes it\n"
            "hint: keep it as plain data"
        )

    def _state_of(self, number: int, callback: Any, arrays: MutableMapping[str, Any]) -> dict[str, Any]:
        path = f"callbacks/{number}"
        if all(callable(getattr(callback, name, None)) for name in _METHODS):
            return {"state": _packed_state(callback, path, arrays)}
        found = {}
        for name, value in vars(callback).items():
            if name in KERASS_OWN:
                continue
            if isinstance(value, keras.Variable):
                value = keras.ops.convert_to_numpy(value)  # `_set` assigns the array
            try:
                found[name] = pack(value, f"{path}/{name}", arrays)
            except CannotPackError:
                if not self._is_setting(number, name, value):
                    _report(callback, name, value)
        return {"attributes": found}

    def _is_setting(self, number: int, name: str, value: Any) -> bool:
        """Whether an attribute need not be saved: an object that is saved elsewhere, or the script's unchanged object."""
        is_keras = type(value).__module__.partition(".")[0] in ("keras", "abreast")
        if is_keras or holds_variables(value) or is_object(value):  # see `reached.py`
            return True
        return isinstance(value, _SETTINGS) and self._begin[number].get(name) is value


def _packed_state(callback: Any, path: str, arrays: MutableMapping[str, Any]) -> Any:
    try:
        return pack(callback.get_state(), path, arrays)
    except CannotPackError as error:
        raise CheckpointError(
            f"get_state of {_name(callback)} returns what a checkpoint cannot hold: {error}",
            "return numbers, text, NumPy arrays, and lists and dictionaries of them",
        ) from error


def _report(callback: Any, name: str, value: Any) -> None:
    if type(callback).__module__.partition(".")[0] == "keras":
        return  # files and writers; Keras opens them again
    tell_once(
        f"checkpoints leave out {_name(callback)}.{name} (a {type(value).__qualname__}): after a restart it is as the script "
        "makes it\nhint: give the callback get_state() and set_state(state), whose state is plain data"
    )


def _set(callback: Any, name: str, value: Any) -> None:
    present = vars(callback).get(name)
    if callable(getattr(present, "assign", None)):  # a variable of Keras or TensorFlow; other objects may hold it, too
        present.assign(value)
    elif not fill(present, value):
        vars(callback)[name] = value


def _name(callback: Any) -> str:
    return type(callback).__qualname__
