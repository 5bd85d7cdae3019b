"""Callbacks that act on batches, in any process of a job: each process then takes its steps as if it had all of them.

A script may give callbacks to `fit` in one process only, such as a logger on rank 0. Between steps, processes exchange what such
callbacks could read, and do so all or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from abreast.backend.contract import Job
from abreast.together.call import explaining


def of_all(job: Job | None, name: str, own: Sequence[Any], saves: bool) -> tuple[tuple[Any, ...], bool]:
    """The callbacks of a call of `name` that act on batches, and whether one `saves` the model between steps, in any process.

    A callback that only other processes have is an object of a class of its name, without code. Outside a job, nothing changes.
    """
    if job is None:
        return tuple(own), saves
    names = [type(each).__name__ for each in own]
    with explaining(job):
        said = [json.loads(each) for each in job.exchange(f"prepares {name}", json.dumps([names, saves]).encode())]
    elsewhere = dict.fromkeys(each for others, _ in said for each in others if each not in names)
    return (*own, *(type(each, (), {})() for each in elsewhere)), any(saves for _, saves in said)
