"""JAX's profiler over some steps, for `Instruments.trace`."""

from __future__ import annotations

from typing import Any

import jax

from abreast.backend.step_range import StepRange
from abreast.errors import BackendError

_OPEN = "open perfetto_trace.json.gz at https://ui.perfetto.dev, or: pip install xprof, then xprof --logdir {}"


class JaxTracer:
    """See `Tracer` in `backend/instruments.py`."""

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir
        self._range = StepRange(_annotate, jax.default_backend() != "cpu")
        try:
            self._is_running = True
            jax.profiler.start_trace(logdir, create_perfetto_trace=True)
        except RuntimeError as error:
            raise BackendError(
                f"JAX's profiler cannot start: {error}", "end the other trace, with jax.profiler.stop_trace"
            ) from error

    def begin_step(self, number: int) -> None:
        self._range.begin(number)

    def end_step(self) -> None:
        self._range.end()

    def stop(self) -> str | None:
        if self._is_running:
            self._is_running = False
            jax.profiler.stop_trace()
        return _OPEN.format(self._logdir)


def _annotate(number: int) -> Any:
    return jax.profiler.StepTraceAnnotation("train", step_num=number)
