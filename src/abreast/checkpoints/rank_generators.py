"""The framework's random generators in the processes of a job: each process has its own, and rank 0 writes all of them."""

from __future__ import annotations

import json
from typing import Any

from abreast.backend.contract import Job
from abreast.checkpoints.plain import array_from_json, array_to_json
from abreast.checkpoints.snapshot import Snapshot
from abreast.stderr import tell_once

_PREFIX = "generators/framework"


def of_all(state: Snapshot, job: Job) -> list[Any]:
    """The framework's generators of all ranks, in rank order, as JSON. All processes call this."""
    own = {name: array_to_json(array) for name, array in state.tensors.items() if name.startswith(_PREFIX)}
    message = json.dumps([state.values["generators"]["framework"], own]).encode()
    return [json.loads(each) for each in job.exchange("saves random generators", message)]


def own(saved: Snapshot, job: Job) -> Snapshot:
    """The checkpoint with this rank's generators, or with rank 0's if another number of processes wrote it."""
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
