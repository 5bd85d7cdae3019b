"""Processes that a launcher started: each runs the user's script, and this one takes part with its own rank.

What must be alike in all of them is compared (`../agreement.py`). Not here: what the ranks exchange (`peers.py`). Imports torch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from keras import tree

from abreast.backend import fingerprint, order
from abreast.backend.agreement import UNSEEN, Program, digest_of_rows
from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.leaving import HINT
from abreast.backend.torch import messages
from abreast.backend.torch.joint_steps import JointSteps, times_of_rank
from abreast.backend.torch.memory import note_requests
from abreast.backend.torch.mode import StagedBatch
from abreast.backend.torch.peers import Peers, on_host
from abreast.backend.torch.seeds import drawn_on_cpu
from abreast.backend.torch.staging import begin_copy
from abreast.backend.torch.step_lock import StepLock
from abreast.backend.torch.team_model import TeamModel, team_model_of
from abreast.errors import WorkerError
from abreast.feed import HostBatch, Taken
from abreast.shares import shares_of
from abreast.staging import Stage

_LOOK_SECONDS = 1.0  # between two looks at the settings of a model that a script trains batch by batch


class Launched:
    """See `mode.py`."""

    def __init__(self, peers: Peers) -> None:
        self.step_lock = StepLock()
        self._peers = peers
        self._begins = False  # whether the next step is the first one of a call
        self._looked_time: float | None = None
        self._looks = True

    def agree_on_order(self) -> None:
        """An epoch begins: shuffle as rank 0 does."""
        own = json.dumps([order.save(), torch.get_rng_state().tolist()])
        others, generator = json.loads(self._peers.agreement.of_rank_0("begins an epoch", own))
        order.restore(others)
        torch.set_rng_state(torch.tensor(generator, dtype=torch.uint8))

    def call_begins(self) -> None:
        """The next step is the first one of a call, also of one inside of another."""
        self._begins = True

    def call_ended(self, model: Any, failed: bool) -> None:
        """A call has ended here. If it ended well, wait until it has on all ranks, and compare what they saw."""
        known = team_model_of(model)
        try:
            program = UNSEEN if failed or known is None or not self._looks else _program(known)
            self._peers.agreement.call_ended(failed, program)
        finally:
            self._begins = False
            self._peers.job.leaving.in_call = False

    def device(self, placement: Placement) -> str:
        return self._peers.device

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        shares = shares_of(batch.rows, placement.num_devices)
        own = batch.rows_at(shares.slices[self._peers.world.rank])
        staged = StagedBatch(begin_copy(own, self._peers.device), shares.counts)
        staged.digest = digest_of_rows(batch.rows, tree.flatten(batch.data), _as_array)
        return staged

    def drawn(self, placement: Placement) -> bytes | None:
        return drawn_on_cpu()  # also on GPUs: around each step the ranks swap the generator of the CPU

    def steps(
        self, kind: Kind, model: Any, placement: Placement, stage: Stage[StagedBatch]
    ) -> Callable[[Iterator[Any]], Any]:
        note_requests()
        return JointSteps(kind, model, placement, stage, self).run

    def prepared(
        self,
        kind: Kind,
        model: Any,
        placement: Placement,
        taken: Taken[StagedBatch],
        *,
        look: bool,
        checked: bool,
        by_hand: bool,
    ) -> Callable[[], Any]:
        peers, staged, is_global = self._peers, taken.staged, placement.batch_norm == "global"
        peers.job.leaving.in_call = True  # also after a call that a callback made
        known = team_model_of(model) if not look else peers.known(model, is_global)
        if known is None or self._begins:
            self._begins = False
            known = peers.agree_on_variables(model, is_global)
            self._looks = not by_hand or self._is_time_to_look()
        else:
            peers.note_assigned(known, look)
        peers.agreement.before_step(staged.digest, partial(_program, known) if self._looks else UNSEEN)
        if checked:
            peers.agree_on_relations(model)
        return partial(self._run, kind, known, staged)

    def _is_time_to_look(self) -> bool:
        now = time.monotonic()
        if self._looked_time is not None and now - self._looked_time < _LOOK_SECONDS:
            return False
        self._looked_time = now
        return True

    def _run(self, kind: Kind, known: TeamModel, staged: StagedBatch) -> Any:
        before = fingerprint.settings(known.step.model) if kind not in known.seen else {}
        try:
            result = self._peers.run(kind, known, staged.own.ready(), staged.counts)
        except RuntimeError as error:
            if not messages.about_connection(error):
                raise
            text = str(error).splitlines()[0]
            raise WorkerError(f"{self._peers.job.leaving.who_is_gone()}: {text}", HINT) from error
        if before:
            after = fingerprint.settings(known.step.model)
            known.left_by_steps |= {name for name in {**before, **after} if before.get(name) != after.get(name)}
        return result

    def accept_state(self, model: Any) -> None:
        self.collect_gradients(model)
        known = team_model_of(model)
        if known is not None:
            known.accept()

    def collect_gradients(self, model: Any) -> None:
        self._peers.collect_gradients(model)

    def device_times(self, placement: Placement) -> DeviceTimes:
        return times_of_rank(self._peers.world.rank, self._peers.device, placement)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return 0.0


def _program(known: TeamModel) -> Program:
    """What the steps of a model do, but for what steps leave on it: that may follow from a rank's own rows."""
    found = fingerprint.settings(known.step.model)
    found = {name: value for name, value in found.items() if name not in known.left_by_steps}
    return Program(fingerprint.checksum(found), found)


def _as_array(leaf: Any) -> Any:
    return on_host(leaf) if isinstance(leaf, torch.Tensor) else leaf
