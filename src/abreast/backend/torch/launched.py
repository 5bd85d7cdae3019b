"""Processes that a launcher started: each runs the user's script, and drives its devices as a part of all ranks.

A process with several devices leads a team of workers. Each process reads the same global batches and distributes its own rows of
them. All processes use rank 0's order of the data and its weights; other values that must be equal are compared
(`../agreement.py`). Each process has its own Python state, and callbacks run in each. Imports torch.
"""

from __future__ import annotations

import io
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from abreast import ever_rarer, exact
from abreast.arrays import arrays_of, map_arrays
from abreast.backend import fingerprint
from abreast.backend.agreement import UNSEEN, Program
from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.launched import LaunchedProcess
from abreast.backend.leaving import HINT
from abreast.backend.torch import messages
from abreast.backend.torch.buffers import Buffers
from abreast.backend.torch.channel import ChannelClosed
from abreast.backend.torch.interface import check_between_hosts, choose_interface
from abreast.backend.torch.job import Job, Unreachable
from abreast.backend.torch.joint_steps import JointSteps, Moment, times_of_rank
from abreast.backend.torch.memory import note_requests
from abreast.backend.torch.mode import StagedBatch
from abreast.backend.torch.seeds import drawn_on_cpu, seeded
from abreast.backend.torch.staging import begin_copy
from abreast.backend.torch.step_lock import StepLock
from abreast.backend.torch.team import TEAM, Team, host_view
from abreast.backend.torch.team_model import TeamModel, team_model_of
from abreast.errors import LaunchError, WorkerError
from abreast.feed import HostBatch, Taken, array_digest
from abreast.launchers import World, address_of_rank_0
from abreast.limits import hang_seconds
from abreast.shares import counts_of_own, shares_of
from abreast.staging import Stage
from abreast.stderr import tell_once

_LOOK_SECONDS = 1.0  # between two comparisons of the settings of a model that a script trains batch by batch
_OTHER_DRAWS = (
    "random layers continue exactly only on the first device of each process: on the others they draw other numbers\n"
    "hint: start one process for each device"
)


class Launched(LaunchedProcess):
    """See `mode.py`."""

    def __init__(self, world: World, devices: tuple[str, ...]) -> None:
        self.step_lock = StepLock()
        self._devices = devices
        if devices[0].startswith("gpu:"):
            torch.cuda.set_device(int(devices[0].removeprefix("gpu:")))
        address, chosen = address_of_rank_0(world)[0], dict(os.environ)  # `chosen`: the user's variables
        choose_interface(address, os.environ, several_hosts=not world.is_on_one_host)
        job = Job(world, len(devices))
        super().__init__(job)
        self._span = job.span()
        with job.leaving.waiting():
            if not world.is_on_one_host:
                self._check_interface(address, chosen)
            # If any process has workers, all make their teams at the first step, where each waits for the others.
            self._team = Team(devices, hang_seconds(), self._span) if max(job.num_devices) == 1 else None
        self._begins = False  # whether the next step is the first one of a call
        self._looks = True
        self._looks_in_call = 0
        self._settings: WeakKeyDictionary[Any, Mapping[str, str]] = WeakKeyDictionary()  # of models, when last compared
        self._looked_time: float | None = None
        self._draws = torch.empty(0)
        self._seeded: tuple[int, int] | None = None

    def _check_interface(self, address: str, chosen: Mapping[str, str]) -> None:
        try:
            check_between_hosts(address, chosen)
        except LaunchError as error:
            self.job.leaving.failed(error.message)
            raise

    # See `contract.Job`

    def share_variables(self, model: Any, placement: Placement) -> None:
        team, is_global = self._team_for(placement), placement.batch_norm == "global"
        self._agree_on_variables(team, model, is_global, self._known(model, is_global))

    # Comparisons between processes

    def call_begins(self) -> None:
        """Mark the next step as the first one of a call, also of a call inside another."""
        self._begins, self._looks_in_call = True, 0

    def call_ended(self, model: Any, failed: bool) -> None:
        """End a call of this process. Unless it failed, wait for its end in all processes, and compare their records."""
        known = team_model_of(model)
        try:
            program = UNSEEN if failed or known is None or not self._looks else _program(model, known)
            self._agreement.call_ended(failed, program)
        finally:
            self._begins = False
            self.job.leaving.in_call = False

    def _agree_on_variables(self, team: Team, model: Any, global_batch_norm: bool, known: TeamModel | None) -> bool:
        """Give variables that a script set since the last step rank 0's values, unless all processes set the same values.

        Returns whether the model is new to a process: then it must be new to all.
        """
        variables = messages.numbered_variables(model)
        buffers = Buffers(model, global_batch_norm).tensors()
        tensors = [*(variable._value for variable in variables), *buffers]
        names = [f"{each.path} {tuple(each.shape)} {each.dtype}" for each in variables]
        names += [f"buffer {i} {tuple(each.shape)} {each.dtype}" for i, each in enumerate(buffers)]
        changed = range(len(tensors)) if known is None else _changed(known)
        all_changed, differ = self._agreement.begins_call(names, {i: array_digest(tensors[i]) for i in changed})
        team.give_to_callers([tensors[i] for i in differ])
        return len(all_changed) == len(tensors)

    def _known(self, model: Any, global_batch_norm: bool) -> TeamModel | None:
        """The model as of its last step; None if it is new, or if its variables were replaced since."""
        known = team_model_of(model)
        return known if known and known.is_of(model, self._span.size, global_batch_norm) else None

    def _note_assigned(self, known: TeamModel, look: bool) -> None:
        """Record the tensors that the user's code set since the last step of a call."""
        if look:
            known.note_writes()
        variables, buffers = known.changed()
        if not (variables or buffers):
            return
        named, assigned = known.named(), known.assigned()
        for i in [*variables, *(len(known.tensors) + i for i in buffers)]:
            name, tensor = named[i]
            if i in assigned:
                self._agreement.assigned(name, partial(array_digest, tensor))
            else:  # its memory was requested, for reading or for writing
                self._agreement.read_or_assigned(name)

    def _is_time_to_look(self) -> bool:
        now = time.monotonic()
        if self._looked_time is not None and now - self._looked_time < _LOOK_SECONDS:
            return False
        self._looked_time = now
        return True

    # Steps

    def device(self, placement: Placement) -> str:
        return self._devices[0]

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        shards, counts = self._cut(batch, placement)
        staged = StagedBatch(begin_copy(shards[0], self._devices[0]), counts)
        if counts:
            staged.digest = batch.compared
        team = self._team
        if team is not None and not team.closed:
            with suppress(ChannelClosed):  # the step reports the cause, or sends the batch again
                staged.sent, staged.team = team.send_shards(shards), team
        return staged

    def _cut(self, batch: HostBatch, placement: Placement) -> tuple[list[Any], tuple[int, ...]]:
        """The shards of this process's devices, and the row counts of all devices; none yet if each process has its own rows."""
        if placement.is_per_host:
            return batch.cut(len(self._devices)), ()
        shares = shares_of(batch.rows, self._span.size)
        own = range(self._span.first, self._span.first + len(self._devices))
        return [
            batch.rows_at(shares.slices[i]) if shares.counts[i] else batch.first_rows(1) for i in own
        ], shares.counts

    def _counts(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """The number of rows of each device, given the number of rows of each process."""
        return counts_of_own(rows, self.num_devices)

    def drawn(self, placement: Placement) -> bytes | None:
        return drawn_on_cpu()  # also on GPUs: around each step the ranks swap the generator of the CPU

    def steps(
        self, kind: Kind, model: Any, placement: Placement, stage: Stage[StagedBatch]
    ) -> Callable[[Iterator[Any]], Any]:
        note_requests()
        return JointSteps(kind, model, placement, stage, self, self._counts).run

    def prepared(
        self, kind: Kind, model: Any, placement: Placement, taken: Taken[StagedBatch], moment: Moment
    ) -> Callable[[], Any]:
        staged, is_global = taken.staged, placement.batch_norm == "global"
        self.job.leaving.in_call = True  # also after a call that a callback made
        with self._explained():
            team = self._team_for(placement)
            known = self._known(model, is_global) if moment.look else team_model_of(model)
            anew = known is None
            if begins := known is None or self._begins:
                self._begins = False
                anew = self._agree_on_variables(team, model, is_global, known)
                self._looks = not moment.by_hand or self._is_time_to_look()
            else:
                self._note_assigned(known, moment.look)
            self._agreement.present = partial(_present, model)
            is_changed = self._before_step(staged.digest, model, known, moment, begins)
            if is_changed:
                moment.changed()
            if moment.checked or is_changed:
                self.agree_on_relations(model)
            team_model = team.team_model(model, self._span.size, is_global, moment.look, anew=anew)
            if team_model is not known:
                self.job.exchange("has the model anew", b"")
            team.relate(team_model, self.related_rows(model))
            if (rows := moment.rows()) is not None:
                self._compare(kind, team, team_model, rows)
            if staged.sent is None or staged.team is not team:
                staged.sent, staged.team = team.send_shards_now(self._cut(taken.host, placement)[0]), team
        return partial(self._run, kind, team, team_model, staged, moment)

    def _before_step(self, batch: int, model: Any, known: TeamModel | None, moment: Moment, begins: bool) -> bool:
        """Compare this step with those of the other processes; whether the model's settings changed, in all of them.

        Settings may have changed where the user's code ran. Where a callback runs before every step, they are compared ever more
        rarely after the first steps of a call, because reading them takes about a millisecond.
        """
        self._looks_in_call += moment.look
        is_wanted = begins or (moment.look and ever_rarer.is_due(self._looks_in_call))
        if not (self._looks and is_wanted):
            self._agreement.before_step(batch, UNSEEN)
            return False
        program = _program(model, known)
        self._agreement.before_step(batch, lambda: program)
        if moment.by_hand:
            return False
        if not begins:
            self._agreement.between_steps(program)
        before = self._settings.get(model, program.settings)
        self._settings[model] = program.settings
        return not fingerprint.changed(before, program.settings) <= (known.left_by_steps if known else set())

    def _run(self, kind: Kind, team: Team, known: TeamModel, staged: StagedBatch, moment: Moment) -> Any:
        assert staged.sent is not None
        before = fingerprint.settings(known.step.model) if kind not in known.seen else {}
        with self._explained(), self._own_draws():
            result = team.run(known, kind, staged.own, staged.sent, staged.counts, moment.meanwhile)
        if before:
            known.left_by_steps |= fingerprint.changed(before, fingerprint.settings(known.step.model))
        return result

    def _compare(self, kind: Kind, team: Team, known: TeamModel, own_rows: Any) -> None:
        """Let rank 0 warn if a device of any process computes otherwise than its own from the same rows, which are rank 0's."""
        own_rows = map_arrays(host_view, own_rows)
        content = b"".join(each.tobytes() for each in arrays_of(own_rows))
        content = self.job.exchange("sends a few rows", content if self.rank == 0 else b"")[0]
        rest = io.BytesIO(content)
        rows = map_arrays(lambda own: np.frombuffer(rest.read(own.nbytes), own.dtype).reshape(own.shape), own_rows)
        own = json.dumps([each.as_json() for each in team.short_results(known, kind, rows)])
        of_all = [json.loads(each) for each in self.job.exchange("compares what devices compute", own.encode())]
        if self.rank == 0:
            found = [exact.ShortResults.of_json(text) for each in of_all for text in each]
            again = partial(known.short_results, kind, rows)
            exact.announce_unlike(known.step.model, found, self.names, again)

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        """Inside, torch's generator on the CPU is this rank's own: layers draw different numbers per rank, shuffles the same."""
        draws, shuffles = self.read_draws(), torch.get_rng_state()
        torch.set_rng_state(draws)
        try:
            yield
        finally:
            self._draws = torch.get_rng_state()
            torch.set_rng_state(shuffles)

    def read_draws(self) -> torch.Tensor:
        """The state of the generator from which this rank's layers draw. It restarts when the script seeds."""
        if self._seeded != seeded():
            self._draws, self._seeded = _draws(self._span.first), seeded()
        return self._draws

    def write_draws(self, state: torch.Tensor) -> None:
        self._draws, self._seeded = state, seeded()
        if len(self._devices) > 1 and self.job.rank == 0:
            tell_once(_OTHER_DRAWS)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Inside, an error about a lost connection names the process that is gone; the other processes hear of a lost worker."""
        try:
            yield
        except WorkerError as error:
            if error.rank is None:  # not about a worker
                raise
            if _is_about_connection(error):
                raise WorkerError(self.job.leaving.who_is_gone(), HINT) from error
            device = self.names[self._span.first + error.rank]
            text = error.message.replace(f"rank {error.rank} of {TEAM}", f"the worker of {device}")
            self.job.leaving.failed(text)
            where = f"rank {self.job.rank} on host {platform.node()}"
            raise WorkerError(f"{where}: {text}", error.hint, rank=error.rank) from error
        except (RuntimeError, ChannelClosed, Unreachable) as error:
            if isinstance(error, RuntimeError) and not messages.about_connection(error):
                raise
            raise WorkerError(self.job.leaving.who_is_gone(), HINT) from error

    def accept_state(self, model: Any) -> None:
        if self._team is not None:
            self._team.accept_state(model)

    def collect_gradients(self, model: Any) -> None:
        if self._team is not None and not self._team.closed:
            self._team.collect_gradients(model)

    def _team_for(self, placement: Placement) -> Team:
        team = self._team
        if team is not None and not team.closed and team.job.failure is not None:
            raise team.job.failure  # a new team would wait for the other processes, which have theirs
        if team is None or not team.is_usable:
            if team is not None:
                team.close()
            team = self._team = Team(self._devices, hang_seconds(), self._span)
        team.allow_waiting(placement.staging.most)
        return team

    def close(self) -> None:
        """End the workers; a later step starts new ones."""
        with self.step_lock:
            if self._team is not None and len(self._devices) > 1:
                self._team.close()
                self._team = None

    def device_times(self, placement: Placement) -> DeviceTimes:
        return times_of_rank(self._span.first, self._devices[0], placement)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return 0.0


def _draws(rank: int) -> torch.Tensor:
    """A state of torch's generator that differs between ranks. The seeds of Python and NumPy are the script's own."""
    seed = (torch.initial_seed() + rank * 1_000_003) % 2**63
    torch.cuda.manual_seed_all(seed)  # nothing shuffles with these
    return torch.Generator().manual_seed(seed).get_state()


def _changed(known: TeamModel) -> list[int]:
    known.note_writes()
    variables, buffers = known.changed()
    return [*variables, *(len(known.tensors) + index for index in buffers)]


def _program(model: Any, known: TeamModel | None) -> Program:
    return Program.of(fingerprint.settings(model), () if known is None else known.left_by_steps)


def _is_about_connection(error: WorkerError) -> bool:
    """Whether a worker raised because another process is gone."""
    return "raised RuntimeError" in error.message and messages.about_connection(RuntimeError(error.message))


def _present(model: Any, name: str) -> int:
    known = team_model_of(model)
    return 0 if known is None else array_digest(dict(known.named())[name])
