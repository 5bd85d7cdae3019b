"""Makes an ordinary `.keras` file from a checkpoint: builds its model through Keras, and fills it with the tensors.

Keras builds it in its safe mode: no code from a checkpoint runs. If Keras does not find a model's classes, the model's own script
builds it, and `fill` fills it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abreast.checkpoints.folder import checkpoint_names, newest_good
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.snapshot import Snapshot
from abreast.errors import CheckpointError
from abreast.nearest import did_you_mean
from abreast.stderr import tell

_MODEL, _OPTIMIZER = "model/", "optimizer/"


def export(folder: str | os.PathLike[str], target: str | os.PathLike[str], name: str | None = None) -> str:
    """Write a checkpoint's model as a `.keras` file, completely or not at all, and return the checkpoint's name.

    Args:
        folder: the folder of the checkpoints.
        target: the file to write; its name ends in `.keras`.
        name: the checkpoint; by default the newest good one.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or Keras cannot build its model.
    """
    if not str(target).endswith(".keras"):
        raise CheckpointError(f"cannot export to {target}: its name does not end in .keras", "name it model.keras")
    name, snapshot = _found(folder, name)
    model = _built(snapshot, Path(folder) / name)
    _fill(model, snapshot, Path(folder) / name)
    _save(model, Path(target))
    return name


def fill(model: Any, folder: str | os.PathLike[str], name: str | None = None) -> str:
    """Set the variables of a built model to those of a checkpoint, and return the checkpoint's name.

    Raises `CheckpointError`, before anything is set, if the model has other variables.
    """
    name, snapshot = _found(folder, name)
    _fill(model, snapshot, Path(folder) / name)
    return name


def _found(folder: str | os.PathLike[str], name: str | None) -> tuple[str, Snapshot]:
    if name is not None:
        if name != os.path.basename(name) or name in ("", ".", ".."):
            raise CheckpointError(
                f"{name!r} is not the name of a checkpoint", f"`abreast checkpoints {folder}` lists them"
            )
        if name not in (names := checkpoint_names(folder)):
            raise CheckpointError(f"{folder} has no checkpoint {name}", did_you_mean(name, names) if names else None)
        return name, read_checkpoint(Path(folder) / name)
    found = newest_good(folder)
    if found is None:
        raise CheckpointError(f"{folder} has no checkpoints", "name a folder of checkpoints")
    return found


def _built(snapshot: Snapshot, path: Path) -> Any:
    described = snapshot.values.get("model")
    config = described.get("config") if isinstance(described, dict) else None
    if not isinstance(config, str):
        raise CheckpointError(f"{path} does not describe its model", _hint(path))
    from keras import saving

    try:
        return saving.deserialize_keras_object(json.loads(config), safe_mode=True)
    except Exception as error:  # Keras raises errors of many kinds
        raise CheckpointError(f"Keras cannot build the model of {path}: {_reason(error)}", _hint(path)) from error


def _reason(error: BaseException) -> str:
    """The first sentence of the first error: Keras wraps that error once per enclosing layer."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).strip().partition("\n")[0].partition(". ")[0][:300]


def _hint(path: Path) -> str:
    lines = (
        "from abreast.checkpoints.export import fill",
        "model = ...  # as the script builds it",
        f"fill(model, {str(path.parent)!r}, {path.name!r})",
        'model.save("model.keras")',
    )
    return "build the model in Python, where its classes and functions are, and fill it:\n" + "\n".join(
        f"    {line}" for line in lines
    )


def _fill(model: Any, snapshot: Snapshot, path: Path) -> None:
    tensors = _of(_MODEL, snapshot)
    _check(model.variables, tensors, path)
    optimizer = getattr(model, "optimizer", None)
    state = _of(_OPTIMIZER, snapshot)
    if optimizer is not None and state:
        optimizer.build(model.trainable_variables)
        if _shapes(optimizer.variables) == [array.shape for array in state.values()]:
            _assign(optimizer.variables, state)
        else:
            tell(f"the optimizer of {path} has other variables than Keras builds: its state is left out")
    _assign(model.variables, tensors)


def _of(group: str, snapshot: Snapshot) -> dict[str, np.ndarray]:
    return {name: array for name, array in snapshot.tensors.items() if name.startswith(group)}


def _check(variables: Sequence[Any], tensors: dict[str, np.ndarray], path: Path) -> None:
    if len(variables) != len(tensors):
        what = f"{path} has {len(tensors)} variables of a model, and this model has {len(variables)}"
        raise CheckpointError(what, _hint(path))
    for variable, (name, array) in zip(variables, tensors.items(), strict=True):
        if tuple(variable.shape) != array.shape:
            what = f"{name} of {path} has the shape {array.shape}, and {variable.path} of this model {tuple(variable.shape)}"
            raise CheckpointError(what, _hint(path))


def _shapes(variables: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(variable.shape) for variable in variables]


def _assign(variables: Sequence[Any], tensors: dict[str, np.ndarray]) -> None:
    for variable, array in zip(variables, tensors.values(), strict=True):
        variable.assign(array)


def _save(model: Any, target: Path) -> None:
    part = target.with_name(f".abreast-{secrets.token_hex(6)}.keras")
    try:
        try:
            model.save(part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        what = f"cannot write the model to {target}: {error.strerror or error}"
        raise CheckpointError(what, "name a file in a folder that you may write to, and that has room") from error
