"""The caller's side of PyTorch training: its process with its model, and the workers that run the same steps.

A team is started once for its devices and serves every later `fit`. If a launcher started several processes, the team of each
is a part of all ranks; messages go from a caller to its own workers only. Not here: a rank's work on its shard (`step.py`).
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import torch
import torch.distributed as dist
from keras import tree

from abreast import exact, process_groups, workers
from abreast.arrays import map_arrays
from abreast.backend.contract import Kind
from abreast.backend.torch import all_reduce, imported_classes, messages, seeds, settings
from abreast.backend.torch.channel import ChannelClosed, channel_pair
from abreast.backend.torch.groups import Groups, Span, SpanGroups, rendezvous_file
from abreast.backend.torch.hooks import announce_modes, check_hooks
from abreast.backend.torch.interface import check_interface
from abreast.backend.torch.pickle_model import UnknownObject
from abreast.backend.torch.python_state import PythonState
from abreast.backend.torch.shards import SharedMemoryWriter
from abreast.backend.torch.staging import StagedShard
from abreast.backend.torch.step import ReplicaStep
from abreast.backend.torch.team_model import TeamModel, forget, keep, team_model_of
from abreast.cpu import num_cores
from abreast.errors import BackendError, WorkerError

TEAM = "the team"  # name in errors of one process's workers, if there are several processes
_START_SECONDS = 180.0
_PAUSE_SECONDS = 200e-6
_LULL_SECONDS = 1.0

_teams = itertools.count()

SentShards = list[bytes]  # the descriptors of a batch's shards in the workers' memory, by rank from 1


class Team:
    """The workers of `devices[1:]`; this process is on `devices[0]`. `span`: the place of these ranks among all processes'."""

    def __init__(self, devices: tuple[str, ...], hang_seconds: float, span: Span | None = None) -> None:
        if not sys.platform.startswith("linux"):
            raise BackendError(
                f"PyTorch workers need Linux; this is {sys.platform}", "train on one device, or with KERAS_BACKEND=jax"
            )
        if dist.is_initialized() and (span is None or len(devices) > 1):
            raise BackendError(
                "torch.distributed is already initialized in this process",
                process_groups.HINT,
            )
        if span is None:
            check_interface(os.environ)
        self.devices = devices
        self._span = span
        self.closed = False
        self._copies_ahead = devices[0].startswith("gpu:")
        self._sending = threading.Lock()
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        self._forgotten: deque[int] = deque()
        self._keys = itertools.count()
        self._num_steps = 0
        self._settings: dict[str, Any] = {}  # as last sent to the workers
        self._seeded = seeds.seeded()
        self._threads = torch.get_num_threads()
        self._rendezvous = rendezvous_file()
        self._start(hang_seconds)

    def _start(self, hang_seconds: float) -> None:
        size = len(self.devices)
        cores = num_cores()
        on_cpu = self.devices[0].startswith("cpu")
        options = {
            "size": size,
            "span": None if self._span is None else dataclasses.asdict(self._span),
            "rendezvous": f"/proc/self/fd/{self._rendezvous}",
            "team": next(_teams),
            "backend": "gloo" if on_cpu else "cpu:gloo,cuda:nccl",
            "threads": max(1, min(self._threads, cores // size) if on_cpu else cores // size // 2),
        }
        pairs = {rank: channel_pair() for rank in range(1, size)}
        self._channels = {rank: ours for rank, (ours, _) in pairs.items()}
        self._writers = {rank: SharedMemoryWriter(channel) for rank, channel in self._channels.items()}
        self.job = workers.Job(
            "abreast.backend.torch.worker",
            ranks=list(pairs),
            environments={r: {"ABREAST_RANK": str(r), "ABREAST_WORLD_SIZE": str(size)} for r in pairs},
            arguments={rank: json.dumps({**options, "device": self.devices[rank]}) for rank in pairs},
            pass_fds={rank: (theirs.fileno(), self._rendezvous) for rank, (_, theirs) in pairs.items()},
            hang_seconds=hang_seconds,
            name="torch" if self._span is None else TEAM,
            on_failure=self._wake,
        )
        for _, theirs in pairs.values():
            theirs.close()
        with self._translated():
            for channel in self._channels.values():
                assert channel.receive(seconds=_START_SECONDS).kind == messages.READY
            self.groups = self._groups(options)
        if on_cpu and size > 1:
            torch.set_num_threads(options["threads"])  # type: ignore[arg-type]

    def _groups(self, options: dict[str, Any]) -> Groups | SpanGroups:
        if self._span is None:
            return Groups(0, len(self.devices), options["rendezvous"], options["team"], options["backend"])
        return SpanGroups(self._span.first, self._span, options["team"], options["backend"])

    def team_model(
        self, model: Any, size: int, global_batch_norm: bool, look: bool, *, anew: bool = False
    ) -> TeamModel:
        """The model on the first `size` ranks, sent to the workers unless they have it in its present state.

        `look`: the user's code may have changed the model since its last step. `anew`: always send it.
        """
        team_model = team_model_of(model)
        fits = team_model is not None and team_model.step.buffers.fits() and not anew
        if team_model is not None and fits and not look:
            return team_model
        self._send_settings()
        if size > 1:
            announce_modes(model)
        identity = messages.identity(model, size, global_batch_norm)
        if team_model is None or not fits or team_model.identity != identity or not self._send_changes(team_model):
            if team_model is not None:
                self.collect_gradients(model)
                if team_model.python_state is not None:
                    team_model.python_state.let_go()
                forget(model)  # before sending, which may fail
            team_model = self._send(model, size, global_batch_norm, identity)
            self._models.add(model)
            keep(model, team_model)
        else:
            team_model.note_writes()
        return team_model

    def _send(self, model: Any, size: int, global_batch_norm: bool, identity: Any) -> TeamModel:
        exact.check_layers(model)
        check_hooks(model)
        key = next(self._keys)
        python_state = PythonState(model) if self._channels else None
        data = None if python_state is None else python_state.dump_model()
        with self._translated():
            self._send_forgotten()
            if not self.groups.has(size):
                self._send_all(range(1, len(self.devices)), messages.GROUP, size)
                self.groups.open(size)
            if python_state is not None:
                self._send_to_workers(model, size, (key, size, data, global_batch_norm))
                self._send_classes(size, python_state.classes())
            step = ReplicaStep(model, self.groups.link(size), global_batch_norm)
        team_model = TeamModel(key, step, identity, python_state)
        team_model.forget = weakref.finalize(team_model, self._forgotten.append, key)
        return team_model

    def _send_to_workers(self, model: Any, size: int, content: tuple[Any, ...]) -> None:
        workers = self._workers(size)
        self._send_all(workers, messages.MODEL, (*content, seeds.seed_of(model)))
        states = seeds.to_go_on_with(model) or []
        for rank, state in enumerate(states, start=1) if len(states) == len(workers) else ():
            self._channels[rank].send_object(messages.GENERATORS, state)
        seeds.go_on_with(model, None)

    def _send_classes(self, size: int, classes: Any) -> None:
        """Let the workers' classes be those of this process. Raises `ModelError` where they have other code."""
        if classes:
            workers = self._workers(size)
            self._send_all(workers, messages.CLASSES, classes)
            with self.job.work():
                differing = [self._channels[rank].receive().object() for rank in workers]
            if any(differing):
                raise imported_classes.other_code(next(filter(None, differing)))

    def _workers(self, size: int) -> range:
        """The workers that take part in steps of `size` ranks, counted from 1."""
        return range(1, size if self._span is None else len(self.devices))

    def _send_forgotten(self) -> None:
        """Let the workers free their copies of freed models. A model may be freed inside any call, so not at that moment."""
        while self._forgotten:
            self._send_all(range(1, len(self.devices)), messages.FORGET, self._forgotten.popleft())

    def _send_settings(self) -> None:
        if seeds.seeded() != self._seeded:
            self._seeded = seeds.seeded()
            with self._translated():
                self._send_all(range(1, len(self.devices)), messages.SEED, torch.initial_seed())
        now = settings.read()
        if now != self._settings:
            with self._translated():
                self._send_all(range(1, len(self.devices)), messages.SETTINGS, now)
            self._settings = now

    def _send_changes(self, team_model: TeamModel) -> bool:
        """Send the changes of this process's Python state to the workers; False if they need the whole model again."""
        if team_model.python_state is None:
            return True
        try:
            data = team_model.python_state.dump_changes()
        except UnknownObject:
            return False
        if data is not None:
            self.collect_gradients(team_model.step.model)
            with self._translated():
                self._send_all(self._workers(team_model.size), messages.STATE, (team_model.key, data))
            team_model.num_changes += 1
        team_model.python_state.accept()
        return True

    def accept_state(self, model: Any) -> None:
        """Before the user's code runs: record that the workers have the state that the last step left, on every rank alike."""
        team_model = team_model_of(model)
        if team_model is not None and not self.closed:
            self.collect_gradients(model)
            team_model.accept()

    def give_to_callers(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the tensors of rank 0 to the callers of all processes; the workers get them before the next step."""
        assert isinstance(self.groups, SpanGroups)
        with self._translated():
            self.groups.give_to_callers(tensors)

    def relate(self, team_model: TeamModel, relations: exact.Relations | None) -> None:
        """Tell all ranks which layers work on the rows of all ranks."""
        if team_model.step.relations != relations:
            with self._translated():
                self._send_all(self._workers(team_model.size), messages.RELATIONS, (team_model.key, relations))
            team_model.step.relations = copy.deepcopy(relations)

    def _send_all(self, ranks: Sequence[int], kind: int, content: Any) -> None:
        for rank in ranks:
            self._channels[rank].send_object(kind, content)

    @property
    def is_usable(self) -> bool:
        """Whether the team can run a step: it is not closed, and belongs to this process."""
        return not (self.closed or self.job.failure or self.job.forked)

    def raise_failure(self) -> None:
        """End the team and raise its failure, if a worker has failed while no step ran.

        New workers would have other random states, and none of the gradients that waited in it.
        """
        if not self.closed and self.job.failure is not None and not self.job.forked:
            self.close()
            raise self.job.failure

    def allow_waiting(self, prefetch: int) -> None:
        """Let `prefetch` batches wait in the workers' memory, besides the batches in use."""
        for writer in self._writers.values():
            writer.max_pending = max(writer.max_pending, prefetch + 3)

    def send_shards(self, shards: Sequence[Any]) -> SentShards:
        """Copy the shards of ranks 1 and up to the workers' memory, as soon as there is room.

        Called by the feed's threads. Raises `ChannelClosed`.
        """
        writers = [self._writers[rank] for rank in range(1, len(shards))]
        steps, since = self._num_steps, time.monotonic()
        while True:
            if steps != self._num_steps:
                steps, since = self._num_steps, time.monotonic()
            # Steps make room. If no step runs for a while, the code whose batches wait may itself wait for this thread.
            lull = time.monotonic() - since > _LULL_SECONDS
            with self._sending:
                if self.closed or self.job.failure or lull or all(writer.has_room() for writer in writers):
                    return self._send_shards(shards)
            time.sleep(_PAUSE_SECONDS)

    def send_shards_now(self, shards: Sequence[Any]) -> SentShards:
        """Copy the shards at once, for a step that would wait for room for ever. Raises `WorkerError`."""
        with self._translated(), self._sending:
            return self._send_shards(shards)

    def _send_shards(self, shards: Sequence[Any]) -> SentShards:
        if self.closed or self.job.failure:
            raise ChannelClosed("the workers have ended")
        ranks = range(1, len(shards))
        sent = [self._writers[rank].write(tree.map_structure(host_view, shards[rank])) for rank in ranks]
        if self._copies_ahead:
            for rank, descriptor in zip(ranks, sent, strict=True):
                self._channels[rank].send(messages.STAGE, descriptor)
        return sent

    def discard(self, sent: SentShards) -> None:
        """Give back the memory of shards that no step will run."""
        for rank, descriptor in enumerate(sent, start=1):
            if self._copies_ahead:
                self._channels[rank].send(messages.DISCARD, descriptor)
            else:  # the worker does not know this shard
                self._writers[rank].forget(descriptor)

    def run(
        self,
        team_model: TeamModel,
        kind: Kind,
        own: StagedShard,
        sent: SentShards,
        counts: Sequence[int],
        meanwhile: Callable[[], None] | None,
    ) -> Any:
        """Run one step on every rank; return rank 0's result. Raises `WorkerError` if a worker fails.

        `meanwhile` is called at most once, where this rank would only wait for the others.
        """
        self.job.check()
        with team_model.undone_by_failure(), self._translated(), self.job.work(first=kind not in team_model.seen):
            self._send_forgotten()
            self._synchronize(team_model, len(counts))
            step = team_model.step
            step.compares = team_model.compares(kind, counts)
            for rank, descriptor in enumerate(sent, start=1):
                packed = messages.pack_step(team_model.key, step.model.training, step.compares, counts, descriptor)
                self._channels[rank].send(messages.KINDS[kind], packed)
            with step.link.with_work(meanwhile):
                result = getattr(step, kind)(own.ready(), counts)
        team_model.seen.add(kind)
        self._num_steps += 1
        team_model.remember()
        return result

    def short_results(self, team_model: TeamModel, kind: Kind, rows: Any) -> list[exact.ShortResults]:
        """Weights and results for the same rows, of each device of this process."""
        ranks = self._workers(team_model.size)
        with self._translated(), self.job.work(first=True):
            self._synchronize(team_model, team_model.size)
            self._send_all(ranks, messages.RESULTS, (team_model.key, kind, map_arrays(host_view, rows)))
            own = team_model.short_results(kind, rows)
            return [own, *(self._channels[rank].receive().object() for rank in ranks)]

    def all_reduce_seconds(self, size: int, size_bytes: int) -> float:
        """Seconds that the first `size` ranks take to sum a buffer; they must have trained together before."""
        self.job.check()
        with self._translated(), self.job.work(first=True):
            self._send_all(range(1, size), messages.SUM, (size, size_bytes))
            return all_reduce.seconds(self.groups.link(size).group, size_bytes)

    def random_states(self, team_model: TeamModel) -> list[seeds.Generators]:
        """The states of the random generators of the workers that have the model (ranks 1 and up)."""
        ranks = self._workers(team_model.size)
        with self._translated(), self.job.work():
            self._send_all(ranks, messages.GENERATORS, None)
            return [self._channels[rank].receive().object() for rank in ranks]

    def collect_gradients(self, model: Any) -> None:
        team_model = team_model_of(model)
        if team_model is not None and team_model.step.holds_gradients:
            with self._translated():
                self._send_all(self._workers(team_model.size), messages.COLLECT, team_model.key)
                team_model.step.collect_gradients()

    def collect_all_gradients(self) -> None:
        """Collect the gradients of models whose `fit` another call interrupts."""
        if self.is_usable:
            for model in list(self._models):
                self.collect_gradients(model)

    def _synchronize(self, team_model: TeamModel, size: int) -> None:
        """Send the variables and buffers assigned since the last step, by a callback, `reset_metrics` or the user."""
        variables, buffers = team_model.changed()
        if variables or buffers:
            self._send_all(self._workers(size), messages.SYNC, (team_model.key, variables, buffers))
            present = team_model.step.buffers.tensors()
            chosen = [team_model.tensors[index] for index in variables] + [present[index] for index in buffers]
            self.groups.give(chosen, size)

    def _wake(self) -> None:
        for channel in self._channels.values():
            channel.abort()
        with suppress(Exception):
            if "nccl" in dist.get_backend():
                dist.distributed_c10d._abort_process_group()

    def _translated(self) -> _Translated:
        return _Translated(self)

    def close(self) -> None:
        """End the workers and free their resources. Further calls do nothing."""
        if self.closed:
            return
        self.closed = True
        for model in self._models:
            forget(model)
        for channel in self._channels.values():
            channel.close()
        self.job.close()
        with self._sending:
            for writer in self._writers.values():
                writer.close()
        with suppress(Exception):
            self.groups.close()
        torch.set_num_threads(self._threads)


class _Translated:
    """Turns rank 0's error after a worker's end (a closed connection) into the `WorkerError` that names the cause.

    After any error in a step the workers may wait for rank 0 for ever, so the team ends.
    """

    def __init__(self, team: Team) -> None:
        self.team = team

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if error is None:
            return
        failure: WorkerError | None = self.team.job.failure
        if (
            failure is None
            and self.team.job.pids
            and isinstance(error, (RuntimeError, ChannelClosed, TimeoutError, OSError))
        ):
            failure = self.team.job.wait_for_failure(3.0)
        self.team.close()
        if failure is not None and _from_elsewhere(error):
            raise failure from None


def _from_elsewhere(error: BaseException) -> bool:
    return isinstance(error, (ChannelClosed, TimeoutError, OSError, WorkerError)) or messages.about_connection(error)


def host_view(leaf: Any) -> Any:
    """An array of NumPy for a tensor or an array, on the same memory if possible."""
    if isinstance(leaf, torch.Tensor):
        # NumPy shares no memory with a bfloat16 tensor of PyTorch; Keras copies it.
        return keras.ops.convert_to_numpy(leaf) if leaf.dtype == torch.bfloat16 else leaf.detach().cpu().numpy()
    return leaf if leaf is None else np.asarray(leaf)
