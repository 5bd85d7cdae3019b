"""`Timeline`: a Keras callback that says where the time of every training step goes, without a profiler.

Here is what a user calls. The times are heard by `recorder.py`, added up by `accounts.py`, split by `step_parts.py`; they
leave as `step_file.py`, `step_summary.py`, `trace_file.py` and `tensorboard.py` write them. Imports Keras and `parallel`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import keras
import numpy as np

from abreast.backend import current_backend
from abreast.errors import BackendError
from abreast.parallel import placement_of
from abreast.samplers.nvml import NvidiaDevices
from abreast.samplers.processor import Processor
from abreast.samplers.sample import Sample
from abreast.samplers.sampler import Sampler
from abreast.spans import MAIN, READER, STAGER, Span
from abreast.timeline.accounts import Accounts
from abreast.timeline.callback_times import Fit
from abreast.timeline.recorder import Recorder
from abreast.timeline.step_file import StepFile
from abreast.timeline.step_parts import PARTS
from abreast.timeline.step_spans import CALLBACKS, STEPS
from abreast.timeline.step_summary import Summary, summarize
from abreast.timeline.step_table import Numbers, StepTable
from abreast.timeline.tensorboard import write_scalars
from abreast.timeline.trace_file import write_trace
from abreast.timeline.windows import EpochRecord


class Timeline(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Splits every step of `fit` into the parts of `step_parts.PARTS`, which add up to its wall time.

    `path`: a file of JSON lines, one per step. `keep_steps`: of how many steps, the newest, it keeps single spans for
    `write_trace`; numbers it keeps of all. `sample_seconds`: how often it asks for utilisation and memory; None: never.
    """

    # It has no `on_train_batch_end`: one would keep Keras from its asynchronous path, and JAX from working ahead.

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        keep_steps: int = 500,
        sample_seconds: float | None = 0.5,
    ) -> None:
        super().__init__()
        if keep_steps < 1:
            raise BackendError(f"keep_steps={keep_steps}", "keep the spans of at least 1 step")
        if sample_seconds is not None and not sample_seconds > 0:
            raise BackendError(f"sample_seconds={sample_seconds!r}", "give a number of seconds above 0, or None")
        self.devices: tuple[str, ...] = ()
        self.history: dict[str, list[float]] = _history()
        self.notes: list[str] = []
        self._keep_steps = keep_steps
        self._sample_seconds = sample_seconds
        self._file = StepFile(path) if path is not None else None
        self._accounts: Accounts | None = None
        self._recorder: Recorder | None = None
        self._sampler: Sampler | None = None
        self._all_reduce_told = True
        self._began = 0.0
        self._num_steps = self._num_counted = 0  # told of; and in `history`

    # What Keras calls.

    def on_train_begin(self, logs: Any = None) -> None:
        self.close()
        fit = Fit.around(self)
        placement = placement_of(self.model)
        backend = current_backend() if placement is None else placement.backend
        told = backend.instruments.device_times(placement)
        self.devices, self._all_reduce_told = told.devices, told.all_reduce
        self.history, self._num_steps, self._num_counted = _history(), 0, 0
        self.notes = [*told.notes, *([] if placement else [_NO_PLACEMENT])]
        self._began, begin_ns = time.time(), perf_counter_ns()
        self._accounts = Accounts(begin_ns, told.devices, self._keep_steps)
        if self._file is not None:
            self._file.open({"backend": backend.name, "devices": list(told.devices), "parts": list(PARTS)})
        if self._sample_seconds is not None:
            self._sampler = Sampler([NvidiaDevices(), Processor()], self._sample_seconds)
            self._sampler.start()
        self._recorder = Recorder(fit, backend.instruments, self._accounts, self._tell, self._end)
        self._recorder.start()

    def on_train_end(self, logs: Any = None) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording. A fit's end does it, and a failed fit within about a second; called again, it does nothing."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.stop()
            if recorder.error is not None:
                print(f"abreast: the timeline is not complete: {recorder.error!r}", file=sys.stderr)

    # What a user asks for.

    @property
    def steps(self) -> np.ndarray[Any, Any]:
        """A row of numbers per step; see `step_table.STEP`."""
        return self._table().rows()

    @property
    def device_seconds(self) -> np.ndarray[Any, Any]:
        """Seconds that each of `devices` computed: steps by devices."""
        return self._table().device_seconds

    @property
    def spans(self) -> tuple[Span, ...]:
        """Everything that happened in the newest `keep_steps` steps."""
        self._flush()
        return () if self._accounts is None else self._accounts.newest.spans()

    @property
    def samples(self) -> tuple[Sample, ...]:
        return () if self._sampler is None else tuple(self._sampler.samples.copy())

    def summary(self, warm_up_steps: int = 1) -> Summary:
        """Medians, quartiles and shares by part, as a dict that prints as a table; without the first steps, which compile."""
        self._flush()
        notes = [*self.notes, *(self._sampler.notes if self._sampler is not None else [])]
        return summarize(
            self.steps,
            self.device_seconds,
            self.devices,
            self.history,
            warm_up_steps=warm_up_steps,
            all_reduce_told=self._all_reduce_told,
            samples=self.samples,
            notes=notes,
        )

    def write_trace(self, path: str | PathLike[str]) -> Path:
        """Write the newest steps as a trace for https://ui.perfetto.dev or `chrome://tracing`; gives the path."""
        tracks: Sequence[str] = (STEPS, MAIN, CALLBACKS, READER, STAGER, *self.devices)
        return write_trace(path, self.spans, tracks, self.samples, {"notes": "; ".join(self.notes)})

    def write_tensorboard(self, logdir: str | PathLike[str]) -> Path:
        """Write every step's parts as scalars to an event file in `logdir`; gives its path."""
        return write_scalars(logdir, self.steps, self._began)

    # From the recorder's thread.

    def _tell(self, told: list[Numbers | EpochRecord]) -> None:
        assert self._accounts is not None
        for each in told:
            if isinstance(each, EpochRecord):
                self._count_epoch(each)
            else:
                self._num_steps += len(each)
        if self._file is not None:
            self._file.write(told, self._accounts.begin_ns)

    def _count_epoch(self, record: EpochRecord) -> None:
        assert self._accounts is not None
        steps = self._accounts.table.rows(self._num_counted, self._num_steps)
        self._num_counted = self._num_steps
        total, wall = (record.end - record.start) / 1e9, float(steps["wall"].sum(dtype="f8"))
        values = {
            "epoch": record.epoch,
            "num_steps": len(steps),
            "total_seconds": total,
            "step_seconds": float(np.median(steps["wall"])) if len(steps) else 0.0,
            **{f"{name}_seconds": float(steps[name].sum(dtype="f8")) for name in PARTS},
            "validation_seconds": record.validation / 1e9,
            "epoch_seconds": total - wall - record.validation / 1e9,
        }
        for name, value in values.items():
            self.history[name].append(value)

    def _end(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()
        if self._file is not None:
            self._file.close()

    def _table(self) -> StepTable:
        self._flush()
        return StepTable(len(self.devices)) if self._accounts is None else self._accounts.table

    def _flush(self) -> None:
        if self._recorder is not None:
            self._recorder.flush()


_NO_PLACEMENT = "the model is not placed by abreast: its input is not told apart from computing"


def _history() -> dict[str, list[float]]:
    names = ("epoch", "num_steps", "total_seconds", "step_seconds", *(f"{name}_seconds" for name in PARTS))
    return {name: [] for name in (*names, "validation_seconds", "epoch_seconds")}
