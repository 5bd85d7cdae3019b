"""One device: Keras's own step in this process, with nothing to exchange. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch

from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.torch.mode import StagedBatch
from abreast.backend.torch.seeds import drawn_on_cpu
from abreast.backend.torch.staging import begin_copy
from abreast.feed import HostBatch, take
from abreast.shares import shares_of
from abreast.staging import Stage


class Alone:
    """See `mode.py`."""

    def device(self, placement: Placement) -> str:
        return placement.devices[0]

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        return StagedBatch(begin_copy(batch.data, placement.devices[0]), shares_of(batch.rows, 1).counts)

    def drawn(self, placement: Placement) -> bytes | None:
        # On a GPU steps draw from a generator of its own.
        return None if placement.devices[0].startswith("gpu") else drawn_on_cpu()

    def steps(
        self, kind: Kind, model: Any, placement: Placement, stage: Stage[StagedBatch]
    ) -> Callable[[Iterator[Any]], Any]:
        run = getattr(model, f"{kind}_step")
        run = torch.compile(run) if model.jit_compile else run

        def step(batches: Iterator[Any]) -> Any:
            taken = take(batches, stage)
            with nullcontext() if kind == "train" else torch.no_grad():
                return run(taken.staged.own.ready())

        return step

    def device_times(self, placement: Placement) -> DeviceTimes:
        return DeviceTimes((placement.devices[0],), all_reduce=True)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return 0.0
