"""PyTorch: a process per device. The caller's process is rank 0 and keeps the user's model; workers step along.

Keras's own trainer runs `fit` here, in rank 0; its step function cuts each batch and leads all ranks through it.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter_ns
from typing import Any

import keras
import torch
from keras import tree
from keras.src.backend.common import global_state
from keras.src.backend.torch import core as keras_torch
from keras.src.backend.torch import trainer as keras_trainer
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from abreast import exact
from abreast.backend.contract import DeviceTimes, Kind, Placement, Tracer
from abreast.backend.tensorflow.guard import keep_off_gpus
from abreast.backend.torch import seeds
from abreast.backend.torch.channel import ChannelClosed
from abreast.backend.torch.memory import note_requests
from abreast.backend.torch.peers import Peers
from abreast.backend.torch.probe import TorchProbe
from abreast.backend.torch.staging import StagedShard, begin_copy
from abreast.backend.torch.team import SentShards, Team
from abreast.backend.torch.trace import TorchTracer
from abreast.feed import Feed, Handed, HostBatch, Taken, dataset_views, not_numbers, take
from abreast.hardware import CPU_DEVICES
from abreast.launchers import World
from abreast.shares import shares_of
from abreast.workers.limits import hang_seconds

_LULL_SECONDS = 1.0


@dataclass
class StagedBatch:
    """This rank's shard on its way to its device, and those that `team` has in its workers' memory, if it had started."""

    own: StagedShard
    counts: tuple[int, ...]
    team: Team | None = None
    sent: SentShards | None = None


class TorchBackend:
    """See `backend/contract.py`."""

    name = "torch"

    def __init__(self) -> None:
        self._team: Team | None = None
        self._turn = threading.Condition()  # held for a step: ranks meet in one order, whichever thread trains
        self._last_step = (0, 0.0)  # its thread, and when it ended
        self._peers: Peers | None = None
        self._tracer: TorchTracer | None = None
        self._stepped = threading.local()  # `model`: a weak reference to that of this thread's last step

    def use_cpu_devices(self, count: int) -> None:
        os.environ[CPU_DEVICES] = str(count)
        keras_torch.DEFAULT_DEVICE = "cpu"

    def device_names(self) -> tuple[str, ...]:
        simulated = os.environ.get(CPU_DEVICES)
        if simulated is None and torch.cuda.is_available():
            return tuple(f"gpu:{index}" for index in range(torch.cuda.device_count()))
        return tuple(f"cpu:{index}" for index in range(int(simulated or 1)))

    def join(self, world: World) -> tuple[str, ...]:
        if self._peers is None:
            self._peers = Peers(world, on_gpu=self.device_names()[0].startswith("gpu"))
        return tuple(f"rank:{index}" for index in range(world.size))

    def install(self, devices: tuple[str, ...]) -> None:
        keep_off_gpus()
        seeds.install()
        exact.install()  # before anybody replaces one of these functions for a while
        _install()

    def source(self, adapter: Any) -> Callable[[], Iterator[Any]]:
        def epoch() -> Iterator[Any]:
            if self._peers is not None:
                self._peers.agree_on_order()
            # Begun at once, as Keras does: a loader draws a seed when it begins, which moves the shuffles after it.
            with keras.device("cpu"):  # else Keras moves every batch to the first GPU
                batches = iter(adapter.get_torch_dataloader())
            if isinstance(adapter, TFDatasetAdapter):
                return (tree.map_structure(_as_keras_would, batch) for batch in dataset_views(adapter))
            return _on_cpu(batches)

        return epoch

    def watched_dataset(self, dataset: Any, begin: Callable[[], Callable[[Any], None]]) -> Any | None:
        return None

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        counts = shares_of(batch.rows, placement.num_devices).counts
        if placement.num_devices == 1 and self._peers is None:
            return StagedBatch(begin_copy(batch.data, placement.devices[0]), counts)
        shards = batch.cut(placement.num_devices)
        if self._peers is not None:
            return StagedBatch(begin_copy(shards[self._peers.world.rank], self._peers.device), counts)
        staged = StagedBatch(begin_copy(shards[0], placement.devices[0]), counts)
        team = self._team
        if team is not None and not team.closed and team.devices[: placement.num_devices] == placement.devices:
            with suppress(ChannelClosed):  # the step will say why, and sends the batch again if it can
                staged.sent, staged.team = team.send_shards(shards), team
        return staged

    def discard(self, staged: StagedBatch) -> None:
        if staged.team is not None and staged.sent is not None and not staged.team.closed:
            with suppress(ChannelClosed):
                staged.team.discard(staged.sent)

    def drawn(self, placement: Placement) -> bytes | None:
        # On GPUs steps draw from generators of their own; but peers swap that of the CPU around each step.
        if placement.devices[0].startswith("gpu") and self._peers is None:
            return None
        return torch.get_rng_state().numpy().tobytes()

    def place(self, model: Any, placement: Placement) -> None:
        device = placement.devices[0] if self._peers is None else self._peers.device
        if device.startswith("gpu:"):
            torch.cuda.set_device(int(device.removeprefix("gpu:")))
        if model.steps_per_execution > 1:
            raise ValueError(
                "`steps_per_execution` must be 1 with the PyTorch backend. "
                f"Received: steps_per_execution={model.steps_per_execution}"
            )
        optimizer = getattr(model, "optimizer", None)
        target = keras_torch.get_device()
        for variable in [*model.variables, *(optimizer.variables if optimizer is not None else [])]:
            if variable._value is not None and variable._value.device.type != torch.device(target).type:
                variable._value.data = variable._value.data.to(target)

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> Callable[..., Any]:
        put = partial(self.put, placement=placement)
        if placement.num_devices == 1 and self._peers is None:
            return _plain_step(kind, model, put)
        if self._peers is None:
            note_requests()
        check = exact.RowCheck(kind, model)
        check.is_due = placement.check_rows

        def step(batches: Any) -> Any:
            taken = take(batches if isinstance(batches, Handed) else iter(batches), put)
            by_hand = not isinstance(batches, Handed)  # `train_on_batch`: the user's code runs between steps
            with self._turn:
                try:
                    _build(model, taken.host)
                    if check.is_due:
                        _check_rows(check, kind, model, taken.host, placement)
                        if self._peers is not None:
                            self._peers.agree_on_relations(model)
                    run = self._prepared(kind, model, placement, taken, look=by_hand or batches.after_users_code)
                except BaseException:
                    self.discard(taken.staged)
                    raise
                result = run()
                self._last_step = threading.get_ident(), monotonic()
                self._stepped.model = weakref.ref(model)
                if by_hand or batches.before_users_code:
                    self._accept_state()
            if kind == "predict":
                return result
            return model.get_metrics_result() if result is None else result

        return step

    def _accept_state(self) -> None:
        """The user's code runs next: what it finds in Python is what the workers have, too."""
        model = getattr(self._stepped, "model", lambda: None)()
        with self._turn:
            if model is not None and self._peers is not None:
                self._peers.collect_gradients(model)
            elif model is not None and self._team is not None:
                self._team.accept_state(model)

    def _prepared(self, kind: Kind, model: Any, placement: Placement, taken: Taken, look: bool) -> Callable[[], Any]:
        """All ranks with the model and their shards; what comes back runs the step."""
        staged: StagedBatch = taken.staged
        if kind != "predict":
            exact.state_rule_of_own_step(kind, model, staged.counts)
        global_batch_norm = placement.batch_norm == "global"
        if self._peers is not None:
            return partial(self._peers.run, kind, model, staged.own.ready(), staged.counts, global_batch_norm)
        team = self._team_for(placement)
        replica = team.replica(model, placement.num_devices, global_batch_norm, look)
        team.relate(replica, exact.related_rows(model))
        if staged.sent is None or staged.team is not team:
            staged.sent, staged.team = team.send_shards_now(taken.host.cut(placement.num_devices)), team
        return partial(team.run, replica, kind, staged.own, staged.sent, staged.counts)

    def _team_for(self, placement: Placement) -> Team:
        """The running team when the placement's devices are its first ones; else a new one in its place."""
        team = self._team
        if team is not None and (team.closed or team.job.failure or team.job.forked):
            team = None
        if team is None or team.devices[: placement.num_devices] != placement.devices:
            while self._is_used_by_another_thread():
                self._turn.wait(_LULL_SECONDS / 10)
            if self._team is not None:
                self._team.collect_all_gradients()
                self._team.close()
            team = self._team = Team(placement.devices, hang_seconds())
        team.allow_waiting(placement.staging.most)
        return team

    def _is_used_by_another_thread(self) -> bool:
        """Whether another thread trains on the team. One that makes no steps may wait for ours, as in a callback."""
        thread, ended = self._last_step
        in_use = self._team is not None and not self._team.closed
        return in_use and thread != threading.get_ident() and monotonic() - ended < _LULL_SECONDS

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        with self._turn:
            group = self._peers or self._team
            if group is not None and not failed:
                group.collect_gradients(model)
        if failed and self._tracer is not None:
            self._tracer.stop()  # here: only the thread that started it can
        if failed:
            with suppress(Exception):
                global_state.set_global_attribute("torch_device", None)

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None or placement.num_devices == 1:
            device = self.device_names()[0] if placement is None else placement.devices[0]
            return DeviceTimes((device,), all_reduce=True)
        rank = 0 if self._peers is None else self._peers.world.rank
        device = placement.devices[0] if self._peers is None else self._peers.device
        on_cpu = device.startswith("cpu")
        told = "its waiting for other ranks is all-reduce" if on_cpu else "all-reduce on GPUs is not told apart"
        return DeviceTimes((placement.devices[rank],), on_cpu, (f"only rank {rank} is seen; {told}",))

    def mark(self, outputs: Any) -> Any:
        if not torch.cuda.is_initialized():
            return None  # on the CPU a step has ended when its call returns
        event = torch.cuda.Event()
        event.record()
        return event

    def finished(self, handle: Any) -> tuple[int, ...]:
        handle.synchronize()
        return (perf_counter_ns(),)

    def trace(self, logdir: str) -> Tracer:
        self._tracer = TorchTracer(logdir)
        return self._tracer

    def random_state(self) -> Any:
        return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def set_random_state(self, state: Any) -> None:
        on_cpu, on_gpus = state
        torch.set_rng_state(on_cpu)
        for index, each in enumerate(on_gpus):
            torch.cuda.set_rng_state(each, index)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        if self._peers is not None or placement.num_devices == 1:
            return 0.0
        with self._turn:
            return self._team_for(placement).all_reduce_seconds(placement.num_devices, size_bytes)

    def close(self, placement: Placement) -> None:
        with self._turn:
            if self._team is not None:
                self._team.close()
                self._team = None


def _on_cpu(batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        with keras.device("cpu"):
            try:
                batch = next(batches)
            except StopIteration:
                return
            except ValueError as error:  # Keras has converted the arrays, and said it in fewer words
                words, _, dtype = str(error).partition("Invalid dtype: ")
                if words or not dtype:
                    raise
                raise not_numbers(dtype) from error
        yield batch


def _as_keras_would(leaf: Any) -> Any:
    """A NumPy view of a dataset's tensor as it is, where torch has its type; else converted as Keras does."""
    if leaf is None or (leaf.dtype.kind in "biuf" and leaf.dtype.name not in ("uint16", "uint32", "uint64")):
        return leaf
    with keras.device("cpu"):
        return keras_torch.convert_to_tensor(leaf)


def _plain_step(kind: Kind, model: Any, put: Callable[[HostBatch], StagedBatch]) -> Callable[..., Any]:
    """Keras's own step, for one device: nothing has to be exchanged."""
    run = getattr(model, f"{kind}_step")
    run = torch.compile(run) if model.jit_compile else run

    def step(batches: Any) -> Any:
        taken = take(batches if isinstance(batches, Handed) else iter(batches), put)
        with nullcontext() if kind == "train" else torch.no_grad():
            return run(taken.staged.own.ready())

    return step


@functools.cache
def _install() -> None:
    """Let Keras hand a feed's batches on as they were staged, not as plain arrays."""
    epoch_iterator: Any = keras_trainer.TorchEpochIterator
    plain = epoch_iterator.__next__

    def next_batch(self: Any) -> Any:
        if not isinstance(self.data_adapter, Feed):
            return plain(self)
        try:
            begin_step, end_step, iterator = next(self._epoch_iterator)
        except StopIteration:
            if not self.data_adapter.users_code_between_steps:  # else it has run since the last step
                BACKEND._accept_state()
            raise
        with self.catch_stop_iteration():
            handed = Handed(iterator)
            handed.before_users_code = self.data_adapter.users_code_between_steps
            handed.after_users_code = handed.before_users_code or begin_step == 0
            return begin_step, end_step, handed
        raise StopIteration

    epoch_iterator.__next__ = next_batch


def _check_rows(check: exact.RowCheck, kind: Kind, model: Any, batch: HostBatch, placement: Placement) -> None:
    probe = TorchProbe(model, _here().startswith("gpu"), exact.overrides_step(model, "train") and kind == "train")

    def rows(count: int) -> Any:
        return begin_copy(batch.rows_at(slice(count)), _here()).ready()

    check(batch.rows, shares_of(batch.rows, placement.num_devices).counts[0], batch.num_bytes, rows, probe)


def _build(model: Any, batch: HostBatch) -> None:
    """Create the variables of a model that `predict` meets unbuilt."""
    if not all(layer.built for layer in model._flatten_layers()):
        with torch.no_grad():
            row = begin_copy(batch.rows_at(slice(1)), _here())
            model.predict_step(row.ready())


def _here() -> str:
    """This process's own device, as abreast names it."""
    return f"gpu:{torch.cuda.current_device()}" if keras_torch.get_device().startswith("cuda") else "cpu:0"


BACKEND = TorchBackend()
