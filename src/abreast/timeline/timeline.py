"""`Timeline`: a Keras callback that reports where the time of every training step goes, without a profiler.

Here: the methods that a user calls. `recorder.py` receives the times, `accounts.py` assigns them to steps, `step_parts.py`
splits the steps; `step_file.py`, `step_summary.py`, `trace_file.py` and `tensorboard.py` write the results.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from numbers import Real
from os import PathLike
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import keras
import numpy as np

from abreast.backend import current_backend
from abreast.errors import BackendError
from abreast.placed_models import placement_of
from abreast.samplers.nvml import NvidiaDevices
from abreast.samplers.processor import Processor
from abreast.samplers.sample import DeviceSample
from abreast.samplers.sampler import Sampler
from abreast.spans import MAIN, READER, STAGER, Span
from abreast.stderr import tell
from abreast.timeline.accounts import Accounts
from abreast.timeline.callback_times import Fit
from abreast.timeline.recorder import StepRecorder
from abreast.timeline.step_file import StepFile
from abreast.timeline.step_parts import PARTS
from abreast.timeline.step_spans import CALLBACKS, STEPS
from abreast.timeline.step_summary import TimelineSummary, summarize
from abreast.timeline.step_table import Numbers, StepTable
from abreast.timeline.tensorboard import write_scalars
from abreast.timeline.trace_file import write_trace
from abreast.timeline.windows import EpochRecord
from abreast.units import counted


class Timeline(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A Keras callback that splits the wall time of every step of `fit` into parts, without a profiler.

    The parts add up to the step: `wait` (for input), `copy` (to the devices), `compute`, `all_reduce`, `callbacks` and `rest`
    (of Python). Every `fit` starts a new recording.

    Args:
        path: a file that gets a line of JSON per step; None writes none.
        keep_steps: number of newest steps whose spans are kept for `write_trace`. The numbers of all steps are kept.
        sample_seconds: seconds between samples of utilisation and memory; None for no samples.

    Attributes:
        devices: names of the devices that the last `fit` trained on.
        history: a list by name with a value per epoch: `epoch`, `num_steps`, and in seconds `total_seconds`, `step_seconds` (the
            median), each part as `wait_seconds`, `validation_seconds` and `epoch_seconds` (the rest between steps).
        notes: texts about times that could not be measured.

    Raises:
        BackendError: a setting is invalid, or in `fit` if the file cannot be written.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> with abreast.DataParallel(devices=1):
        ...     model = keras.Sequential([keras.layers.Dense(1)])
        ...     model.compile("sgd", "mse")
        >>> timeline = abreast.Timeline("steps.jsonl")
        >>> x = np.ones((96, 8), "float32")
        >>> history = model.fit(x, x[:, :1], batch_size=32, epochs=2, callbacks=[timeline], verbose=0)
        >>> timeline.summary(warm_up_steps=1)["num_steps"]
        5
        >>> timeline.history["num_steps"]
        [3, 3]
        >>> timeline.steps["wall"].shape, timeline.steps["rows"][0].item()  # seconds and rows, an element per step
        ((6,), 32)
        >>> timeline.device_seconds.shape == (6, len(timeline.devices))
        True
        >>> names = {span.name for span in timeline.spans}
        >>> busy = [sample.utilisation for sample in timeline.samples]
        >>> print(timeline.write_trace("trace.json"))  # open it at https://ui.perfetto.dev
        trace.json
        >>> events = timeline.write_tensorboard("logs")
        >>> timeline.close()  # `fit` did it
    """

    # It has no `on_train_batch_end`, which would keep Keras from its asynchronous path, and JAX from working ahead.

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        keep_steps: int = 500,
        sample_seconds: float | None = 0.5,
    ) -> None:
        super().__init__()
        if not isinstance(keep_steps, int) or keep_steps < 1:
            raise BackendError(f"keep_steps={keep_steps!r} is not allowed", "keep the spans of at least 1 step")
        if sample_seconds is not None and not (isinstance(sample_seconds, Real) and sample_seconds > 0):
            raise BackendError(
                f"sample_seconds={sample_seconds!r} is not allowed", "give a number of seconds above 0, or None"
            )
        self.devices: tuple[str, ...] = ()
        self.history: dict[str, list[float]] = _history()
        self.notes: list[str] = []
        self._keep_steps = keep_steps
        self._sample_seconds = sample_seconds
        self._file = StepFile(path) if path is not None else None
        self._accounts: Accounts | None = None
        self._recorder: StepRecorder | None = None
        self._sampler: Sampler | None = None
        self._all_reduce_known = True
        self._began = 0.0
        self._num_steps = self._num_counted = 0  # steps recorded; steps already in `history`

    # Called by Keras.

    def on_train_begin(self, logs: Any = None) -> None:
        self.close()
        fit = Fit.around(self)
        placement = placement_of(self.model)
        backend = current_backend() if placement is None else placement.backend
        known = backend.instruments.device_times(placement)
        self.devices, self._all_reduce_known = known.devices, known.all_reduce
        self.history, self._num_steps, self._num_counted = _history(), 0, 0
        self.notes = [*known.notes, *([] if placement else [_NO_PLACEMENT])]
        self._began, begin_ns = time.time(), perf_counter_ns()
        self._accounts = Accounts(begin_ns, known.devices, self._keep_steps)
        if self._file is not None:
            self._file.open({"backend": backend.name, "devices": list(known.devices), "parts": list(PARTS)})
        if self._sample_seconds is not None:
            self._sampler = Sampler([NvidiaDevices(), Processor()], self._sample_seconds)
            self._sampler.start()
        self._recorder = StepRecorder(fit, backend.instruments, self._accounts, self._take, self._end)
        self._recorder.start()

    def on_train_end(self, logs: Any = None) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording. The end of `fit` does it too, and a failed `fit` within about a second. A second call does nothing."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.stop()
            if recorder.error is not None:
                tell(f"the timeline is not complete: {recorder.error!r}")

    # Called by the user.

    def __repr__(self) -> str:
        where = f" on {', '.join(self.devices)}" if self.devices else ""
        return f"<Timeline: {counted(self._num_steps, 'step')}{where}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    @property
    def steps(self) -> np.ndarray[Any, Any]:
        """A structured array of shape (steps,), with an element per step.

        Its fields are `epoch`, `step`, `batches`, `rows` (0 if not known) and `bytes`, and in seconds `begin` (since `fit`
        began), `wall`, the parts, `call` (in the step function), `read` and `put` (for the step's batches, in other threads).
        """
        return self._table().rows()

    @property
    def device_seconds(self) -> np.ndarray[Any, Any]:
        """Seconds that each of `devices` computed, an array of shape (steps, devices)."""
        return self._table().device_seconds

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans of the newest `keep_steps` steps, each with track, name, begin and end in nanoseconds."""
        self._flush()
        return () if self._accounts is None else self._accounts.newest.spans()

    @property
    def samples(self) -> tuple[DeviceSample, ...]:
        """Utilisation (0 to 1), memory (bytes) and clock (MHz) of each device, every `sample_seconds`."""
        return () if self._sampler is None else tuple(self._sampler.samples.copy())

    def summary(self, warm_up_steps: int = 1) -> TimelineSummary:
        """Medians, quartiles and shares by part: a dictionary that prints as a table.

        Args:
            warm_up_steps: number of first steps to leave out, since they compile.

        Returns:
            A dictionary with `step_seconds` and each of `parts`, which have `median`, `quartiles` (seconds) and `share` (0 to 1),
            `starvation`, the share of time without input, `rows_per_second` or None, and more.
        """
        self._flush()
        notes = [*self.notes, *(self._sampler.notes if self._sampler is not None else [])]
        return summarize(
            self.steps,
            self.device_seconds,
            self.devices,
            self.history,
            warm_up_steps=warm_up_steps,
            all_reduce_told=self._all_reduce_known,
            samples=self.samples,
            notes=notes,
        )

    def write_trace(self, path: str | PathLike[str]) -> Path:
        """Write the newest `keep_steps` steps as a trace for https://ui.perfetto.dev or `chrome://tracing`.

        Args:
            path: the file to write.

        Returns:
            Its path.

        Raises:
            OSError: the file cannot be written.
        """
        tracks: Sequence[str] = (STEPS, MAIN, CALLBACKS, READER, STAGER, *self.devices)
        return write_trace(path, self.spans, tracks, self.samples, {"notes": "; ".join(self.notes)})

    def write_tensorboard(self, logdir: str | PathLike[str]) -> Path:
        """Write every step's parts, in seconds, as scalars for TensorBoard. TensorFlow is not needed.

        Args:
            logdir: the folder that gets an event file.

        Returns:
            The path of the event file.

        Raises:
            BackendError: the package tensorboard is missing.
            OSError: the file cannot be written.
        """
        return write_scalars(logdir, self.steps, self._began)

    # Called in the recorder's thread.

    def _take(self, records: list[Numbers | EpochRecord]) -> None:
        assert self._accounts is not None
        for record in records:
            if isinstance(record, EpochRecord):
                self._count_epoch(record)
            else:
                self._num_steps += len(record)
        if self._file is not None:
            self._file.write(records, self._accounts.begin_ns)

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


_NO_PLACEMENT = "the model is not placed by abreast: waiting for its input counts as computing"


def _history() -> dict[str, list[float]]:
    names = ("epoch", "num_steps", "total_seconds", "step_seconds", *(f"{name}_seconds" for name in PARTS))
    return {name: [] for name in (*names, "validation_seconds", "epoch_seconds")}
