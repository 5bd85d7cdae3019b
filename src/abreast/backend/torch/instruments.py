"""Instruments of PyTorch: times of devices, the profiler, the random generator, all-reduce timed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch

from abreast.backend.contract import Placement
from abreast.backend.instruments import Defaults, DeviceTimes, Tracer
from abreast.backend.torch import held_gradients, seeds
from abreast.backend.torch.buffers import Buffers
from abreast.backend.torch.devices import device_names
from abreast.backend.torch.launched import Launched
from abreast.backend.torch.leader import Leader
from abreast.backend.torch.mode import Mode
from abreast.backend.torch.sums import is_small
from abreast.backend.torch.team_model import team_model_of
from abreast.backend.torch.trace import TorchTracer
from abreast.feed import HostBatch

# States of this process, of its workers and, in a job, of its rank's layers: NumPy arrays and plain values, for a file.
RandomState = tuple[Any, ...]


class TorchInstruments(Defaults):
    """See `backend/instruments.py`. `mode_of` returns the mode of a placement; `leader` has the workers, if there are any.

    `launched` returns this process's part in a launcher's job, or None. `rest` collects accumulated gradients from all ranks.
    """

    def __init__(
        self,
        mode_of: Callable[[Placement], Mode],
        leader: Leader,
        launched: Callable[[], Launched | None],
        rest: Callable[[Any], None],
    ) -> None:
        self._mode_of = mode_of
        self._leader = leader
        self._launched = launched
        self._rest = rest
        self._tracer: TorchTracer | None = None

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None:
            return DeviceTimes((device_names()[0],), all_reduce=True)
        return self._mode_of(placement).device_times(placement)

    def mark(self, outputs: Any) -> torch.cuda.Event | None:
        if not torch.cuda.is_initialized():
            return None  # a step on the CPU has ended when its call returns
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

    def random_state(self, model: Any) -> RandomState:
        of_workers = None if model is None else self._leader.random_states(model)
        packed = None if of_workers is None else [(_arrays(each.torch), *each[1:]) for each in of_workers]
        launched = self._launched()
        draws = () if launched is None or model is None else (launched.read_draws().numpy(),)
        return _arrays(seeds.read_torch()), packed, *draws

    def set_random_state(self, state: RandomState | None, model: Any) -> None:
        if state is not None:
            own, of_workers, *draws = state
            seeds.write_torch(_tensors(own))
            if draws and (launched := self._launched()) is not None:
                launched.write_draws(torch.from_numpy(draws[0]))
            states = (
                None if of_workers is None else [seeds.Generators(_tensors(own), *rest) for own, *rest in of_workers]
            )
            if model is not None:
                self._leader.set_random_states(model, states)

    def keep_buffers(self, model: Any) -> Buffers:
        buffers = Buffers(model, global_batch_norm=True)
        buffers.keep()
        return buffers

    def rest(self, model: Any) -> None:
        self._rest(model)

    def adds_up(self, model: Any) -> bool:
        known = team_model_of(model)
        return known is not None and known.step.accumulates

    def rounds_anew(self, model: Any, placement: Placement, steps: int) -> str | None:
        if placement.num_devices < 3 or is_small(
            model.trainable_weights
        ):  # a sum of two does not depend on their order
            return None
        return "the first steps add up the gradients of the devices in another order"

    def build(self, model: Any, first_batch: Callable[[], HostBatch]) -> None:
        pass  # Keras's `fit` has built it

    def view(self, variable: Any) -> np.ndarray:
        tensor = variable.value.detach()
        return np.asarray(variable) if tensor.dtype == torch.bfloat16 else tensor.cpu().numpy()

    def read_buffers(self, model: Any) -> dict[str, Any]:
        return Buffers(model, global_batch_norm=True).read() | held_gradients.read(model)

    def write_buffers(self, model: Any, values: Mapping[str, Any]) -> None:
        Buffers(model, global_batch_norm=True).write(held_gradients.without(values))
        held_gradients.write(model, values)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return self._mode_of(placement).all_reduce_seconds(placement, size_bytes)

    def use_deterministic_kernels(self) -> None:
        """PyTorch warns of a kernel without a deterministic form. Workers get these settings like a script's (`settings.py`)."""
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False


def _arrays(state: seeds.TorchState) -> tuple[Any, list[Any]]:
    on_cpu, on_gpus = state
    return on_cpu.numpy(), [each.numpy() for each in on_gpus]


def _tensors(state: tuple[Any, list[Any]]) -> seeds.TorchState:
    on_cpu, on_gpus = state
    return torch.from_numpy(on_cpu), [torch.from_numpy(each) for each in on_gpus]
