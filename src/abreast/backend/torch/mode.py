"""The participants of a step: this process alone, this process and its workers, or processes that a launcher started.

Each mode is a small class in a file of its own: `alone.py`, `leader.py`, `launched.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.torch.channel import ChannelClosed
from abreast.backend.torch.staging import StagedShard
from abreast.backend.torch.team import SentShards, Team
from abreast.feed import HostBatch
from abreast.staging import Stage


@dataclass
class StagedBatch:
    """This rank's shard on its way to its device, and the shards in the memory of `team`'s workers, if the team had started."""

    own: StagedShard
    counts: tuple[int, ...]
    team: Team | None = None
    sent: SentShards | None = None
    digest: int = 0  # checksum of the global batch, if several processes compare their batches

    def discard(self) -> None:
        """Give back the workers' memory."""
        if self.team is not None and self.sent is not None and not self.team.closed:
            with suppress(ChannelClosed):
                self.team.discard(self.sent)


class Mode(Protocol):
    """One way to take part in steps."""

    def device(self, placement: Placement) -> str:
        """The device of this process."""
        ...

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        """Begin to copy the shards; see `Stage.put`."""
        ...

    def drawn(self, placement: Placement) -> bytes | None:
        """See `Stage.drawn`."""
        ...

    def steps(
        self, kind: Kind, model: Any, placement: Placement, stage: Stage[StagedBatch]
    ) -> Callable[[Iterator[Any]], Any]:
        """The function that runs the next step; see `StepFunction.run`."""
        ...

    def device_times(self, placement: Placement) -> DeviceTimes:
        """See `Instruments.device_times`."""
        ...

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        """See `Instruments.all_reduce_seconds`."""
        ...
