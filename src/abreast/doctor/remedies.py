"""Remedies: the changes of a `fit` that its facts make worth a trial, with the way to apply and undo each.

The doctor measures every remedy that it can try, and promises only the gain that it measured. Not here: timing
(`trials.py`) and judging (`rules.py`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import tree

from abreast import placed_models
from abreast.arrays import arrays_of
from abreast.doctor.call import FitCall, bytes_of, with_rows
from abreast.doctor.facts import (
    COMPILED,
    DOUBLE_BATCH,
    EVEN_BATCH,
    GIVEN,
    MANY_STEPS,
    MORE_WORKERS,
    NO_CALLBACKS,
    ONE_DEVICE,
    PRECISION,
    SAME_BATCH,
    STEPS_PER_EXECUTION,
    UINT8,
    Facts,
)
from abreast.doctor.trials import Trial

_MOST_WORKERS = 32
_MOST_BATCH_BYTES = 256 << 20
_MOST_STEP_SECONDS = 0.5
_SHORT_STEP_SECONDS = 0.008
_CALLS_PER_EPOCH = 4  # with fewer calls in an epoch, many steps per call make no sense


@dataclass(frozen=True)
class DiagnosedFit:
    """A fit, its largest batch on the host, and the placement of its model (None: plain Keras)."""

    call: FitCall
    batch: Any
    rows: int
    placement: Any
    mean_rows: float  # rows of a step in the run as given

    @property
    def model(self) -> Any:
        return self.call.model

    @property
    def num_devices(self) -> int:
        return 1 if self.placement is None else int(self.placement.num_devices)

    def given(self) -> Trial:
        workers = self.call.num_workers or 1
        return Trial(GIVEN, "the run as given", self.rows, self.call.fit_arguments, burst=workers)

    def same_batch(self) -> Trial:
        arguments = partial(self.call.with_batch, self.batch)
        return Trial(SAME_BATCH, "one batch again and again: no input", self.rows, arguments, base_rows=self.mean_rows)

    def no_callbacks(self) -> Trial:
        arguments = partial(self.call.fit_arguments, callbacks=[], verbose=0)
        return Trial(NO_CALLBACKS, "without callbacks and progress bar", self.rows, arguments)

    def only_steps(self) -> Trial:
        """One batch again and again, without callbacks, so that a step waits for nothing except the devices."""
        arguments = partial(self.call.with_batch, self.batch, callbacks=[], verbose=0)
        return Trial("only steps", "one batch again and again, without callbacks", self.rows, arguments)


def suggested(diagnosed: DiagnosedFit, facts: Facts) -> list[Trial]:
    """The remedies that the facts suggest, as trials."""
    makers = (_more_workers, _uint8, _compiled, _many_steps, _even_batch, _double_batch, _precision)
    return [trial for maker in makers if (trial := maker(diagnosed, facts)) is not None]


def wanted_workers(facts: Facts) -> int | None:
    """Number of workers that would keep up with the steps; None if the source has none, or if more cannot help."""
    reading = facts.reading
    if reading is None or reading.workers is None:
        return None
    alone = facts.measures[SAME_BATCH].seconds
    if max(reading.seconds, facts.given.seconds) < 1.1 * alone:
        return None
    now = max(1, reading.workers)
    computing = reading.seconds * reading.busy_cores / facts.cores  # seconds per batch if all cores worked on it
    wanted = max(now + 1, math.ceil(1.3 * now * reading.seconds / max(alone, computing)) + 1)
    most = _MOST_WORKERS if reading.waiting > 0.5 else facts.cores  # workers that compute need a core each
    return min(most, wanted) if most > now else None


def _more_workers(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    workers = wanted_workers(facts)
    if workers is None or diagnosed.call.num_workers is None:
        return None
    arguments = partial(diagnosed.call.with_workers, workers)
    what = f"{workers} workers of the source instead of {diagnosed.call.num_workers}"
    return Trial(
        MORE_WORKERS, what, diagnosed.rows, arguments, own_source=True, warmup_steps=2 * workers, burst=workers
    )


def _uint8(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    if not facts.as_uint8_bytes or facts.batch_bytes < 1 << 18:
        return None
    change = partial(as_uint8, scale=255 if facts.scaled else 1)
    whole = diagnosed.call.with_uint8(change)
    x, *rest = diagnosed.batch if isinstance(diagnosed.batch, tuple) else (diagnosed.batch,)
    batch = (change(x), *rest)
    return Trial(
        UINT8,
        "whole numbers sent as uint8",
        diagnosed.rows,
        partial(diagnosed.call.with_batch, batch) if whole is None else partial(dict, whole),
        base=SAME_BATCH if whole is None else GIVEN,
        own_function=True,
    )


def _compiled(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    model = diagnosed.model
    jit_compile = bool(model.jit_compile or model._resolve_auto_jit_compile())
    if not facts.run_eagerly and facts.jit_compile == jit_compile:
        return None
    around = partial(_set, model, run_eagerly=False, jit_compile=jit_compile)
    return Trial(COMPILED, "the step compiled", diagnosed.rows, diagnosed.call.fit_arguments, around, own_function=True)


def _many_steps(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    if facts.steps_per_execution > 1 or facts.given.seconds > _SHORT_STEP_SECONDS:
        return None
    if facts.steps_per_epoch and facts.steps_per_epoch < _CALLS_PER_EPOCH * STEPS_PER_EXECUTION:
        return None
    around = partial(_set, diagnosed.model, steps_per_execution=STEPS_PER_EXECUTION)
    what = f"{STEPS_PER_EXECUTION} steps per call of Keras"
    return Trial(
        MANY_STEPS,
        what,
        diagnosed.rows,
        diagnosed.call.fit_arguments,
        around,
        own_function=True,
        warmup_steps=2 * STEPS_PER_EXECUTION,
    )


def _even_batch(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    shard = math.ceil(diagnosed.rows / diagnosed.num_devices)
    rows = shard * diagnosed.num_devices
    if rows < 1.1 * diagnosed.rows:
        return None
    return _with_rows(diagnosed, EVEN_BATCH, f"batches of {rows} rows, {shard} on each device", rows)


def _double_batch(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    if 2 * bytes_of(diagnosed.batch) > _MOST_BATCH_BYTES or facts.given.seconds > _MOST_STEP_SECONDS:
        return None
    rows = 2 * math.ceil(diagnosed.rows / diagnosed.num_devices) * diagnosed.num_devices
    return _with_rows(diagnosed, DOUBLE_BATCH, f"batches of {rows} rows", rows)


def _with_rows(diagnosed: DiagnosedFit, name: str, what: str, rows: int) -> Trial:
    if diagnosed.call.can_have_rows(rows):
        arguments: Callable[[], dict[str, Any]] = partial(diagnosed.call.with_batch_rows, rows)
        return Trial(name, what, rows, arguments, base_rows=diagnosed.mean_rows, own_function=True)
    arguments = partial(diagnosed.call.with_batch, with_rows(diagnosed.batch, rows))
    return Trial(name, what, rows, arguments, base=SAME_BATCH, base_rows=diagnosed.rows, own_function=True)


def _precision(diagnosed: DiagnosedFit, facts: Facts) -> Trial | None:
    if not facts.has_tensor_cores or facts.reduced_precision:
        return None
    around = partial(mixed_precision, diagnosed.model)
    return Trial(
        PRECISION, "bfloat16 on tensor cores", diagnosed.rows, diagnosed.call.fit_arguments, around, own_function=True
    )


def on_devices(diagnosed: DiagnosedFit, count: int) -> Trial:
    """Train on the first `count` devices, each with as many rows as in the run as given."""
    shard = math.ceil(diagnosed.rows / diagnosed.num_devices)
    batch = with_rows(diagnosed.batch, shard * count)
    return Trial(
        ONE_DEVICE if count == 1 else f"{count} devices",
        f"{shard} rows on {'one device' if count == 1 else f'each of {count} devices'}",
        shard * count,
        partial(diagnosed.call.with_batch, batch),
        partial(placed_models.on_first_devices, diagnosed.model, count),
        base=SAME_BATCH,
        base_rows=diagnosed.rows,
        own_function=True,
    )


@contextlib.contextmanager
def _set(model: Any, **settings: Any) -> Iterator[None]:
    before = {name: getattr(model, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(model, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(model, name, value)


@contextlib.contextmanager
def mixed_precision(model: Any) -> Iterator[None]:
    """Let every float32 layer compute in bfloat16; the types of its variables stay."""
    layers = [layer for layer in model._flatten_layers() if layer.compute_dtype == "float32"]
    before = [layer.dtype_policy for layer in layers]
    try:
        for layer in layers:
            layer.dtype_policy = "mixed_bfloat16"
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            layer.dtype_policy = old


def as_uint8(x: Any, scale: int = 1) -> Any:
    """Convert floating-point arrays of whole numbers from 0 to 255 (divided by `scale`) to `uint8`; keep other arrays."""
    return tree.map_structure(
        lambda leaf: np.rint(np.asarray(leaf) * scale).astype("uint8") if _whole(leaf, scale) else leaf, x
    )


def uint8_bytes(x: Any) -> tuple[int, bool]:
    """Bytes of `x` with its whole numbers as `uint8`, and whether these are divided by 255; 0 bytes if it has none."""
    leaves = [np.asarray(leaf) for leaf in arrays_of(x)]
    for scale in (1, 255):
        whole = [_whole(leaf, scale) for leaf in leaves]
        if any(whole):
            return sum(
                leaf.size if small else leaf.nbytes for leaf, small in zip(leaves, whole, strict=True)
            ), scale > 1
    return 0, False


def _whole(leaf: Any, scale: int) -> bool:
    array = np.asarray(leaf)
    if array.dtype.kind != "f" or array.ndim < 3 or not array.size:
        return False
    some = array.reshape(-1)[:65536].astype("float64") * scale
    return bool(((some >= 0) & (some < 255.5) & (np.abs(some - np.rint(some)) < 1e-3)).all() and some.max() > 1.5)


def compute_is_reduced(model: Any) -> bool:
    return any(layer.compute_dtype in ("bfloat16", "float16") for layer in model._flatten_layers())


def has_batch_norm(model: Any) -> bool:
    return any(isinstance(layer, keras.layers.BatchNormalization) for layer in model._flatten_layers())


def added_devices(diagnosed: DiagnosedFit) -> Sequence[Trial]:
    return [on_devices(diagnosed, count) for count in range(1, diagnosed.num_devices + 1)]
