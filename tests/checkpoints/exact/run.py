"""In a worker: one script of the campaign, undisturbed and interrupted, and the largest difference between the ends.

A new process is one in which no `fit` has been counted. What it cannot show are globals of the process, which other tests of
real processes do.
"""

from __future__ import annotations

import logging
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np

import abreast
from abreast.checkpoints import stop, variables, which_fit
from abreast.checkpoints.fit import KeptFit
from abreast.errors import AbreastError
from abreast.replacing import replaced
from abreast.stderr import tell_once
from tests.checkpoints.exact import callbacks, models, pictures, scripts, sources
from tests.checkpoints.exact.draw import Draw
from tests.harness import precision

_MOMENTS = (
    "step_begins",
    "_step_done",
    "validation_step_begins",
    "validation_begins",
    "epoch_begins",
    "put_back_again",
)
_SCALE = 0.1  # as the contract: smaller numbers are compared with this one


class _Crash(Exception):
    pass


def compare(draw: Draw) -> dict[str, Any]:
    """The verdict on one draw: equal, announced, refused or different, the largest difference and where, and what was said."""
    with tempfile.TemporaryDirectory(prefix="abreast-exact-") as folder:
        try:
            plain = _run(draw, Path(folder, "plain"), draw.devices[0])
        except AbreastError as error:
            return {"verdict": "refused", "where": "without checkpoints", "said": [str(error)]}
        with _said() as said:
            try:
                found, interruptions = _interrupted(draw, Path(folder))
            except AbreastError as error:
                return {"verdict": "refused", "where": str(error).partition("\n")[0], "said": _short(said)}
        difference, where = _largest(plain, found)
        limit = _limit(draw, plain, Path(folder))
    verdict = "equal" if difference <= limit else "different"
    if verdict == "different" and any(_is_announcement(line) for line in said):
        verdict = "announced"
    return {
        "verdict": verdict,
        "difference": difference,
        "where": where,
        "interruptions": interruptions,
        "said": _short(said),
    }


def _interrupted(draw: Draw, folder: Path) -> tuple[dict[str, Any], list[str]]:
    work, checkpoints = folder / "interrupted", folder / "checkpoints"
    happened: list[str] = []
    for number, (moments, kind) in enumerate(draw.stops):
        devices = draw.devices[min(number + 1, len(draw.devices) - 1)]
        try:
            with _stopping(moments, kind, happened):
                found = _run(draw, work, devices, checkpoints)
        except stop.Interrupted:
            happened.append("signal")
            continue
        except Exception as error:
            if not _is_of_crash(error):
                raise
            continue
        happened.append("ended before")
        return found, happened
    return _run(draw, work, draw.devices[-1], checkpoints), happened


def _is_of_crash(error: BaseException | None) -> bool:
    """Whether a crash led to it: on JAX with averages, the end of Keras's `fit` fails after one between a step and its state."""
    return error is not None and (isinstance(error, _Crash) or _is_of_crash(error.__context__))


def _run(draw: Draw, work: Path, devices: int, checkpoints: Path | None = None) -> dict[str, Any]:
    """The script once, as in a new process; `work` is its folder."""
    work.mkdir(exist_ok=True)
    which_fit.as_in_a_new_process()
    keras.utils.clear_session()
    precision.put(draw.precision)
    keras.utils.set_random_seed(draw.seed)
    if draw.source.startswith("loader"):
        import torch

        torch.manual_seed(draw.seed)  # Keras does so on PyTorch alone
    is_image = draw.source == "image_records"
    row = (8, 8, 3) if is_image else (6,)
    structure = models.two_structure if draw.model == "several_inputs" else models.plain_structure
    structure = pictures.structure if is_image else structure
    rows = structure(*sources.rows(20, seed=2))[0]
    made = [getattr(callbacks, name)(work, rows) for name in draw.callbacks]

    def given() -> list[Any]:
        own = [each for found, _ in made for each in found]
        return own if checkpoints is None else [*own, abreast.Checkpoint(checkpoints, every=draw.every)]

    kit = scripts.Kit(
        lambda **more: models.MODELS[draw.model](row, **more),
        lambda model: abreast.parallelize(model, devices),
        lambda: {
            **getattr(sources, draw.source)(structure),
            **sources.validation(draw.validation, structure, draw.source),
        },
        given,
    )
    try:
        trained, histories = getattr(scripts, draw.script)(kit)
        return _state(trained, histories, [result() for _, result in made], rows)
    finally:
        precision.put("float32")


def _state(trained: Any, histories: Any, results: list[Any], rows: Any) -> dict[str, Any]:
    """All that could be other than in the undisturbed run."""
    found: dict[str, Any] = {}
    for name, model in trained.items():
        for i, (path, value) in enumerate(variables.read(model).items()):
            found[f"{name} {i} {variables.without_numbers(path)}"] = value
        predicted = keras.tree.flatten(model.predict(rows, batch_size=9, verbose=0))
        found |= {f"{name} predict {i}": np.array(each) for i, each in enumerate(predicted)}
        found[f"{name} trainable"] = [bool(layer.trainable) for layer in model._flatten_layers()]
    for number, history in enumerate(histories):
        found[f"history {number} epochs"] = history.epoch
        found |= {f"history {number} {key}": value for key, value in history.history.items()}
    found |= {f"callback {number}": result for number, result in enumerate(results)}
    draws = [np.random.random(), random.random(), float(keras.random.uniform(()))]
    return found | {"next draws": draws}


@contextmanager
def _stopping(moments: int, kind: str, happened: list[str]) -> Iterator[None]:
    """Inside, a run is ended after so many moments: by an error, or by what a signal asks for."""
    left, asked = moments, False

    def counting(name: str) -> Callable[..., Any]:
        plain = getattr(KeptFit, name)

        def count(self: Any, *args: Any, **options: Any) -> Any:
            nonlocal left, asked
            left -= 1
            if left == 0:
                happened.append(name)
                if kind == "crash":
                    raise _Crash(name)
                asked = True
            return plain(self, *args, **options)

        return count

    with ExitStack() as until_end:
        for name in _MOMENTS:
            until_end.enter_context(replaced(KeptFit, name, counting(name)))
        until_end.enter_context(replaced(stop, "requested", lambda: "SIGTERM" if asked else None))
        yield


@contextmanager
def _said() -> Iterator[list[str]]:
    """The lines that abreast has said inside."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("abreast")
    tell_once.cache_clear()
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


_ORDINARY = ("goes on from the checkpoint", "had ended", "asked for an end", "was read again up to batch")


def _is_announcement(line: str) -> bool:
    """Whether a line names what cannot be exact. That a batch is another one is none: all sources here have seeds."""
    return any(
        each in line
        for each in (
            "checkpoints leave out",
            "another order",
            "may be others than",
            "saved as one sum",
            "may be compiled with its former value",
        )
    )


def _short(said: list[str]) -> list[str]:
    """Each line that is no ordinary one, once."""
    return list(dict.fromkeys(line for line in said if not any(each in line.partition("\n")[0] for each in _ORDINARY)))


def _limit(draw: Draw, plain: dict[str, Any], folder: Path) -> float:
    """The largest difference that is rounding. In bfloat16 that is much: undisturbed runs on the same devices show how much."""
    if draw.bit_for_bit or draw.model != "bfloat16":
        return 0.0 if draw.bit_for_bit else 1e-8
    others = {*draw.devices} - {draw.devices[0]}
    return 4 * max(_largest(plain, _run(draw, folder / f"on-{number}", number))[0] for number in others)


def _largest(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, str]:
    """The largest difference, relative to the largest number of its array, and where; infinite where a form differs."""
    if one.keys() != other.keys():
        return float("inf"), f"only in one: {sorted(set(one) ^ set(other))[:3]}"
    worst = 0.0, ""
    for name, value in one.items():
        worst = max(worst, (_difference(value, other[name]), name))
    return worst


def _difference(one: Any, other: Any) -> float:
    if isinstance(one, str):
        return 0.0 if one == other else _difference_of_text(one, other)
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return float("inf")
    if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return 0.0
    a, b = a.astype("float64"), b.astype("float64")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    return float(np.nanmax(np.abs(a - b)) / max(_SCALE, float(np.nanmax(np.abs(a))))) or 5e-324


def _difference_of_text(one: str, other: str) -> float:
    """Of two files of numbers."""
    rows = [[each.split(",") for each in text.splitlines()] for text in (one, other)]
    if [len(row) for row in rows[0]] != [len(row) for row in rows[1]] or rows[0][0] != rows[1][0]:
        return float("inf")
    numbers = [np.array([[_number(cell) for cell in row] for row in each[1:]]) for each in rows]
    return _difference(*numbers)


def _number(cell: str) -> float:
    return float("nan") if cell == "NA" else float(cell)  # a CSVLogger's word for what an epoch does not have
