"""The checkpoints of a folder as facts and as a table, for `abreast checkpoints`."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.read import read_checkpoint, read_manifest
from abreast.errors import CheckpointError
from abreast.text_table import text_table
from abreast.units import byte_count, long_duration


def facts(folder: str) -> list[dict[str, Any]]:
    """Each checkpoint's place in the training, bytes, time, and whether its manifest and file lengths are right.

    Raises `CheckpointError` if there is no such folder.
    """
    found = [_facts(Path(folder) / name) for name in _names(folder)]
    return [
        each for each in found if each["good"] or (Path(folder) / each["name"]).exists()
    ]  # a job may have removed it


def verified(folder: str) -> list[dict[str, Any]]:
    """For each checkpoint, whether all of its bytes are unchanged, and the error if not."""
    found = []
    for name in _names(folder):
        error = None
        try:
            read_checkpoint(Path(folder) / name)
        except CheckpointError as caught:
            error = caught.message
        if error is None or (Path(folder) / name).exists():
            found.append({"name": name, "good": error is None, "error": error})
    return found


def table(folder: str, found: list[dict[str, Any]]) -> str:
    """The facts as a table, with the errors below."""
    if not found:
        return f"{folder} has no checkpoints"
    rows = [("NAME", "FIT", "EPOCH", "STEP", "SIZE", "AGE", "GOOD"), *(_row(each) for each in found)]
    errors = [f"{each['name']}: {each['error']}" for each in found if each["error"]]
    return "\n".join([text_table(rows), *errors])


def _names(folder: str) -> list[str]:
    if not Path(folder).is_dir():
        raise CheckpointError(f"{folder} is not a folder", "name a folder of checkpoints")
    return checkpoint_names(folder)


def _facts(path: Path) -> dict[str, Any]:
    try:
        manifest = read_manifest(path)
    except CheckpointError as error:
        place = dict.fromkeys(("fit", "epoch", "step", "finished", "bytes", "written_at"))
        return {"name": path.name, **place, "good": False, "error": error.message}
    values = manifest.values
    return {
        "name": path.name,
        "fit": values.get("fit"),
        "epoch": values.get("epoch"),
        "step": values.get("steps", values.get("step")),
        "finished": values.get("finished", False),
        "bytes": manifest.num_bytes,
        "written_at": manifest.written_at,
        "good": True,
        "error": None,
    }


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    step = "end" if each["finished"] else _text(each["step"])
    size = "-" if each["bytes"] is None else byte_count(each["bytes"])
    good = "yes" if each["good"] else "no"
    return each["name"], _text(each["fit"]), _text(each["epoch"]), step, size, _age(each["written_at"]), good


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def _age(written_at: str | None) -> str:
    try:
        written = datetime.datetime.fromisoformat(written_at or "")
        return long_duration(max(0.0, (datetime.datetime.now(datetime.UTC) - written).total_seconds()))
    except (ValueError, TypeError):  # no time, or one without a zone
        return "-"
