"""The fingerprint of a `fit`: its model, optimizer, source and framework, as JSON. A checkpoint of another `fit` is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from abreast.backend import current_backend
from abreast.checkpoints.anew import ANEW
from abreast.checkpoints.variables import without_numbers
from abreast.errors import CheckpointError
from abreast.feed import Feed
from abreast.feed.fingerprint import source_fingerprint

_MOST_SHOWN = 3
LAYOUT = 1  # version of the set of values in a checkpoint


def take(model: Any, feed: Feed, begin: Mapping[str, str], callbacks: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a `fit` whose model is built. `begin`: the model's settings at the beginning of the `fit`."""
    own_rows = feed.stage.processes  # set if each process gives rows of its own; a checkpoint has rank 0's source
    return {
        "layout": LAYOUT,
        "backend": current_backend().name,
        "precision": str(keras.config.dtype_policy().name),
        "settings": dict(begin),
        "callbacks": dict(callbacks),
        "source": None if own_rows is not None and own_rows.rank else source_fingerprint(feed.adapter),
        "steps_per_execution": model.steps_per_execution,
    }


def of_callbacks(callbacks: Sequence[Any]) -> dict[str, Any]:
    """The settings of Keras's callbacks before their `fit`: numbers, watched metrics and save frequencies.

    Settings of other callbacks are left out: they may differ from run to run, like a time.
    """
    of_keras = [each for each in callbacks if type(each).__module__.partition(".")[0] == "keras"]
    return {
        f"{type(each).__name__}.{name} (of callback {number})": repr(value)
        for number, each in enumerate(of_keras)
        for name, value in vars(each).items()
        if not name.startswith("_") and (type(value) in (bool, int, float) or name in _TEXTS)
    }


_TEXTS = ("monitor", "mode", "save_freq")


def check_writer(saved: Mapping[str, Any], name: str) -> None:
    """Raise `CheckpointError` for a checkpoint of another framework or version, before its content is used."""
    if saved.get("layout") != LAYOUT:
        raise CheckpointError(
            f"the checkpoint {name} was written by another version of abreast, whose values this one does not know",
            f"go on with that version, or {ANEW}",
        )
    theirs, own = saved["backend"], current_backend().name
    if theirs != own:
        raise CheckpointError(
            f"the checkpoint {name} was written with {theirs}, and Keras uses {own}",
            f"set KERAS_BACKEND={theirs} (abreast run --backend {theirs})",
        )


def check(saved: Mapping[str, Any], own: Mapping[str, Any], name: str) -> None:
    """Raise a `CheckpointError` that names the differences between a checkpoint and the `fit` that would continue from it."""
    for part, what in _PARTS.items():
        changed = _changes(saved[part], own[part]) if own[part] is not None else []
        if changed:
            raise CheckpointError(
                f"{what} is not that of the checkpoint {name}: {_listed(changed)}",
                f"go on with the script as it was, or {ANEW}",
            )


def check_replaced(saved: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Raise `CheckpointError` if settings that callbacks changed by replacing parts of the model differ from the present ones."""
    if changed := _changes(saved, own):
        raise CheckpointError(
            f"callbacks had changed the model before the checkpoint, and a restart cannot do so: {_listed(changed)}",
            f"train the second part in a fit of its own, or {ANEW}",
        )


def _listed(changed: Sequence[str]) -> str:
    more = f", and {len(changed) - _MOST_SHOWN} more" if len(changed) > _MOST_SHOWN else ""
    return f"{'; '.join(changed[:_MOST_SHOWN])}{more}"


_PARTS = {
    "precision": "the dtype policy",
    "source": "the data source",
    "steps_per_execution": "steps_per_execution",
    "settings": "the model",
    "callbacks": "a callback",
}


def _changes(saved: Any, own: Any, name: str = "") -> list[str]:
    if isinstance(saved, Mapping) and isinstance(own, Mapping):
        names = list(dict.fromkeys([*saved, *own]))
        nothing = "nothing"
        return [
            change
            for each in names
            for change in _changes(saved.get(each, nothing), own.get(each, nothing), f"{name}.{each}" if name else each)
        ]
    same = saved == own or without_numbers(str(saved)) == without_numbers(str(own))
    return [] if same else [f"{name or 'it'} was {saved}, and is {own}"]
