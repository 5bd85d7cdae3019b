"""PyTorch's profiler over some steps of rank 0, for `Instruments.trace`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from abreast.errors import BackendError


class TorchTracer:
    """See `Tracer` in `backend/instruments.py`. The workers, which are other processes, are not traced."""

    def __init__(self, logdir: str) -> None:
        if torch._C._autograd._profiler_enabled():  # torch would end the other profiler silently
            raise BackendError("PyTorch's profiler is already running", "end the other torch.profiler first")
        on_gpu = torch.cuda.is_available()
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
        self._path = Path(logdir) / "rank0.trace.json"
        self._nvtx: Any = torch.cuda.nvtx if on_gpu else None
        self._step: Any = None
        self._profile = profile(activities=activities)
        self._profile.start()
        self._thread = threading.get_ident()
        self._is_running = True

    def begin_step(self, number: int) -> None:
        self.end_step()
        self._step = record_function(f"step {number}")
        self._step.__enter__()
        if self._nvtx is not None:
            self._nvtx.range_push(f"step {number}")

    def end_step(self) -> None:
        if self._step is not None:
            step, self._step = self._step, None
            if self._nvtx is not None:
                self._nvtx.range_pop()
            step.__exit__(None, None, None)

    def stop(self) -> str | None:
        if self._is_running:
            if threading.get_ident() != self._thread:
                return None  # torch 2.13 crashes
            self._is_running = False
            self.end_step()
            self._profile.stop()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._profile.export_chrome_trace(str(self._path))
        return f"open {self._path.name} at https://ui.perfetto.dev; it shows rank 0 only"
