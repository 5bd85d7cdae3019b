"""What a `fit` is: its model, optimizer, source and framework, as JSON. A checkpoint of another one is refused by name."""

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
LAYOUT = 1  # changes with the values that a checkpoint holds


def take(model: Any, feed: Feed, begin: Mapping[str, str], callbacks: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a `fit` whose model is built, and had the settings `begin` when the `fit` began."""
    own_rows = feed.stage.processes  # where each process gives rows of its own: a checkpoint has those of rank 0
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
    """The settings of Keras's callbacks before their `fit`: numbers, what they watch and when they save.

    Those of other callbacks may differ from run to run, as a time does.
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
    """Raise `CheckpointError` for a checkpoint of another framework or version, before anything of it is read."""
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
    """Raise `CheckpointError` that names what differs between a checkpoint and the `fit` that would go on from it."""
    for part, what in _PARTS.items():
        changed = _changes(saved[part], own[part]) if own[part] is not None else []
        if changed:
            raise CheckpointError(
                f"{what} is not that of the checkpoint {name}: {_listed(changed)}",
                f"go on with the script as it was, or {ANEW}",
            )


def check_replaced(saved: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Raise `CheckpointError` for a model that had other settings when callbacks had replaced parts of it."""
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
