"""PyTorch: a process per device. The caller's process is rank 0 and keeps the user's model; workers run the same steps.

Keras's own trainer runs `fit` in rank 0. Its step function cuts each batch and leads all ranks through the step. The mode
(`mode.py`) decides which ranks there are: this process alone, workers that it leads, or processes that a launcher started.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Final

import keras
import torch
from keras import tree

from abreast import exact, process_groups
from abreast.backend.contract import Kind, Placement, StepFunction
from abreast.backend.several_steps import results_of
from abreast.backend.tensorflow.guard import keep_off_gpus
from abreast.backend.torch import keras_ddp, seeds
from abreast.backend.torch.alone import Alone
from abreast.backend.torch.devices import device_names
from abreast.backend.torch.instruments import TorchInstruments
from abreast.backend.torch.joint_steps import gives_results_by_users_code
from abreast.backend.torch.launched import Launched
from abreast.backend.torch.leader import Leader
from abreast.backend.torch.mode import Mode, StagedBatch
from abreast.backend.torch.parts import batches_of, parts_of
from abreast.backend.torch.staging import LEAVES
from abreast.device_list import CPU_DEVICES
from abreast.feed import DoneStep, Feed, Handed, HostBatch, dataset_views
from abreast.keras_private import global_state
from abreast.keras_private.data_adapters import TFDatasetAdapter
from abreast.keras_private.torch import TAKES_SEVERAL_STEPS, TorchEpochIterator
from abreast.keras_private.torch import core as keras_torch
from abreast.launchers import World, own_devices
from abreast.staging import Stage


class TorchBackend:
    """See `backend/contract.py`."""

    name: Final = "torch"
    steps_run_python: Final = True
    instruments: TorchInstruments

    def __init__(self) -> None:
        self.leader = Leader()
        self.instruments = TorchInstruments(self._mode, self.leader, lambda: self._launched, self._collect_gradients)
        self._alone = Alone()
        self._launched: Launched | None = None

    def _mode(self, placement: Placement) -> Mode:
        if self._launched is not None:
            return self._launched
        return self._alone if placement.num_devices == 1 else self.leader

    @property
    def _ranks(self) -> Leader | Launched:
        return self._launched or self.leader

    def use_cpu_devices(self, count: int) -> None:
        os.environ[CPU_DEVICES] = str(count)
        keras_torch.DEFAULT_DEVICE = "cpu"

    def device_names(self) -> tuple[str, ...]:
        return device_names()

    def join(self, world: World) -> tuple[str, ...]:
        if self._launched is None:
            self._launched = Launched(world, own_devices(world, self.device_names(), os.environ))
        return self._launched.names

    @property
    def job(self) -> Launched | None:
        return self._launched

    def install(self, devices: tuple[str, ...]) -> None:
        keep_off_gpus()
        seeds.install()
        keras_ddp.install()
        exact.install()  # before other code replaces one of these functions for a while
        _install()

    def taking_over(self, num_devices: int) -> AbstractContextManager[None]:
        return process_groups.refused() if num_devices > 1 else nullcontext()

    def source(self, adapter: Any, placement: Placement | None = None) -> Callable[[], Iterator[Any]]:
        def epoch() -> Iterator[Any]:
            if self._launched is not None and (placement is None or placement.source == "global"):
                self._launched.agree_on_order()
                if placement is not None and (parts := parts_of(adapter, self._launched.own_rows)) is not None:
                    return parts
            batches = batches_of(adapter)
            if isinstance(adapter, TFDatasetAdapter):
                return (tree.map_structure(_as_keras_would, batch) for batch in dataset_views(adapter))
            return batches

        return epoch

    def stage(self, placement: Placement) -> Stage[StagedBatch]:
        put, drawn = partial(self.put, placement=placement), partial(self._mode(placement).drawn, placement)
        processes = self._launched if placement.is_per_host else None
        return Stage(put, StagedBatch.discard, drawn, LEAVES, processes)

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        return self._mode(placement).put(batch, placement)

    def place(self, model: Any, placement: Placement) -> None:
        device = self._mode(placement).device(placement)
        if device.startswith("gpu:"):
            torch.cuda.set_device(int(device.removeprefix("gpu:")))
        if model.steps_per_execution > 1 and not TAKES_SEVERAL_STEPS:
            raise ValueError(
                "`steps_per_execution` must be 1 with the PyTorch backend. "
                f"Received: steps_per_execution={model.steps_per_execution}"
            )
        keras_ddp.keep_off(model)
        if self._launched is not None:
            self._launched.call_begins()
        optimizer = getattr(model, "optimizer", None)
        target = keras_torch.get_device()
        for variable in [*model.variables, *(optimizer.variables if optimizer is not None else [])]:
            if variable._value is not None and variable._value.device.type != torch.device(target).type:
                variable._value.data = variable._value.data.to(target)

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> StepFunction:
        step = self._mode(placement).steps(kind, model, placement, self.stage(placement))

        def run(batches: Iterator[Any]) -> Any:
            outputs = results_of(lambda: step(batches), model.steps_per_execution)
            if kind != "predict" or len(outputs) == 1:
                return outputs[-1]
            return tree.map_structure(lambda *parts: torch.cat(parts), *outputs)

        def for_keras(batches: Any) -> Any:
            return run(batches if isinstance(batches, Handed) else iter(batches))

        return StepFunction(run, for_keras)

    def accept_state(self) -> None:
        """Record, before the user's code runs, that all ranks have the present Python state."""
        ranks = self._ranks
        model = ranks.step_lock.last_model()
        if model is not None and not gives_results_by_users_code(model):
            with ranks.step_lock:
                ranks.accept_state(model)

    def _collect_gradients(self, model: Any) -> None:
        with self._ranks.step_lock:
            self._ranks.collect_gradients(model)

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        with self._ranks.step_lock:
            if not failed:
                self._ranks.collect_gradients(model)
            if self._launched is not None:
                self._launched.call_ended(model, failed)
        if failed:
            self.instruments.stop_trace()  # in this thread, because only the thread that started it can stop it
            with suppress(Exception):
                global_state.set_global_attribute("torch_device", None)

    def close(self, placement: Placement) -> None:
        self.leader.close()
        if self._launched is not None:
            self._launched.close()


def _as_keras_would(leaf: Any) -> Any:
    """A NumPy view of a dataset's tensor, if torch has its type; else an array converted as Keras does."""
    if leaf is None or (leaf.dtype.kind in "biuf" and leaf.dtype.name not in ("uint16", "uint32", "uint64")):
        return leaf
    with keras.device("cpu"):
        return keras_torch.convert_to_tensor(leaf)


@functools.cache
def _install() -> None:
    """Make Keras pass a feed's batches on in their staged form, not as plain arrays."""
    epoch_iterator: Any = TorchEpochIterator
    plain = epoch_iterator.__next__

    def next_batch(self: Any) -> Any:
        if not isinstance(self.data_adapter, Feed):
            return plain(self)
        try:
            begin_step, end_step, iterator = next(self._epoch_iterator)
        except StopIteration:
            if not self.data_adapter.users_code_between_steps:  # else that code has run since the last step
                BACKEND.accept_state()
            raise
        if isinstance(iterator, DoneStep):
            return begin_step, end_step, iterator
        with self.catch_stop_iteration():
            handed = Handed(iterator)
            handed.before_users_code = self.data_adapter.users_code_between_steps
            handed.after_users_code = handed.before_users_code or begin_step == 0
            return begin_step, end_step, handed
        raise StopIteration

    epoch_iterator.__next__ = next_batch


BACKEND = TorchBackend()
