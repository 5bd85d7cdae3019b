"""What only looks on at PyTorch. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch

from abreast.backend.contract import Placement
from abreast.backend.instruments import DeviceTimes, Tracer
from abreast.backend.torch.devices import device_names
from abreast.backend.torch.mode import Mode
from abreast.backend.torch.trace import TorchTracer

RandomState = tuple[torch.Tensor, list[torch.Tensor]]  # of the CPU's generator, and of those of the GPUs


class TorchInstruments:
    """See `backend/instruments.py`. `mode_of` gives the mode of a placement."""

    def __init__(self, mode_of: Callable[[Placement], Mode]) -> None:
        self._mode_of = mode_of
        self._tracer: TorchTracer | None = None

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None:
            return DeviceTimes((device_names()[0],), all_reduce=True)
        return self._mode_of(placement).device_times(placement)

    def mark(self, outputs: Any) -> torch.cuda.Event | None:
        if not torch.cuda.is_initialized():
            return None  # on the CPU a step has ended when its call returns
        event = torch.cuda.Event()
        event.record()
        return event

    def finished(self, mark: torch.cuda.Event) -> tuple[int, ...]:
        mark.synchronize()
        return (perf_counter_ns(),)

    def trace(self, logdir: str) -> Tracer:
        self._tracer = TorchTracer(logdir)
        return self._tracer

    def stop_trace(self) -> None:
        """Stop the profiler in this thread: only the thread that started it can."""
        if self._tracer is not None:
            self._tracer.stop()

    def random_state(self) -> RandomState:
        return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def set_random_state(self, state: RandomState | None) -> None:
        if state is None:
            return
        on_cpu, on_gpus = state
        torch.set_rng_state(on_cpu)
        for index, each in enumerate(on_gpus):
            torch.cuda.set_rng_state(each, index)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return self._mode_of(placement).all_reduce_seconds(placement, size_bytes)
