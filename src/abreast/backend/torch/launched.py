"""Processes that a launcher started: each runs the user's script, and this one takes part with its own rank.

Not here: what the ranks exchange (`peers.py`). Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.torch.joint_steps import JointSteps, times_of_rank
from abreast.backend.torch.mode import StagedBatch
from abreast.backend.torch.peers import Peers
from abreast.backend.torch.seeds import drawn_on_cpu
from abreast.backend.torch.staging import begin_copy
from abreast.backend.torch.step_lock import StepLock
from abreast.feed import HostBatch, Taken
from abreast.shares import shares_of
from abreast.staging import Stage


class Launched:
    """See `mode.py`."""

    def __init__(self, peers: Peers) -> None:
        self.step_lock = StepLock()
        self._peers = peers

    def agree_on_order(self) -> None:
        """An epoch begins: shuffle as rank 0 does."""
        self._peers.agree_on_order()

    def device(self, placement: Placement) -> str:
        return self._peers.device

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        shares = shares_of(batch.rows, placement.num_devices)
        own = batch.rows_at(shares.slices[self._peers.world.rank])
        return StagedBatch(begin_copy(own, self._peers.device), shares.counts)

    def drawn(self, placement: Placement) -> bytes | None:
        return drawn_on_cpu()  # also on GPUs: around each step the ranks swap the generator of the CPU

    def steps(
        self, kind: Kind, model: Any, placement: Placement, stage: Stage[StagedBatch]
    ) -> Callable[[Iterator[Any]], Any]:
        return JointSteps(kind, model, placement, stage, self).run

    def prepared(
        self, kind: Kind, model: Any, placement: Placement, taken: Taken[StagedBatch], *, look: bool, checked: bool
    ) -> Callable[[], Any]:
        if checked:
            self._peers.agree_on_relations(model)
        staged, is_global = taken.staged, placement.batch_norm == "global"
        return partial(self._peers.run, kind, model, staged.own.ready(), staged.counts, is_global)

    def accept_state(self, model: Any) -> None:
        self._peers.collect_gradients(model)

    def collect_gradients(self, model: Any) -> None:
        self._peers.collect_gradients(model)

    def device_times(self, placement: Placement) -> DeviceTimes:
        return times_of_rank(self._peers.world.rank, self._peers.device, placement)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return 0.0
