"""The framework's random generators of the processes of a job: each has its own, and rank 0 writes those of all."""

from __future__ import annotations

import json
from typing import Any

from abreast.backend.contract import Job
from abreast.checkpoints.plain import array_from_json, array_to_json
from abreast.checkpoints.snapshot import Snapshot
from abreast.stderr import tell_once

_PREFIX = "generators/framework"


def of_all(state: Snapshot, job: Job) -> list[Any]:
    """The framework's generators of all ranks, in their order, as JSON. All processes call it."""
    own = {name: array_to_json(array) for name, array in state.tensors.items() if name.startswith(_PREFIX)}
    message = json.dumps([state.values["generators"]["framework"], own]).encode()
    return [json.loads(each) for each in job.exchange("saves random generators", message)]


def own(saved: Snapshot, job: Job) -> Snapshot:
    """A checkpoint with the generators of this rank; those of rank 0 if another number of processes wrote it."""
    of_ranks = saved.values.get("generators_of_ranks") or []
    if len(of_ranks) != job.size:
        if job.rank == 0:
            before = f"{len(of_ranks)} processes" if of_ranks else "one process"
            tell_once(f"{before} wrote the checkpoint: random layers go on with other numbers in these {job.size}")
        return saved
    framework, arrays = of_ranks[job.rank]
    tensors = {name: array for name, array in saved.tensors.items() if not name.startswith(_PREFIX)}
    tensors |= {name: array_from_json(text) for name, text in arrays.items()}
    generators = {**saved.values["generators"], "framework": framework}
    return Snapshot(tensors, {**saved.values, "generators": generators})
