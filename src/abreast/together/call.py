"""The preparation of a call: each process of a job adapts the arguments from the script."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import keras

from abreast.backend.contract import Job, Placement
from abreast.errors import ModelError
from abreast.feed.own_callbacks import listed
from abreast.together import output, saving, writers
from abreast.together.stop import AgreedStop, may_stop_between_batches


@functools.cache
def install(rank: int) -> None:
    """Prepare a process of a job: output only on rank 0, and complete model files. Runs once."""
    output.only_on_rank_0(rank)
    saving.install()


def take_part(name: str, arguments: dict[str, Any], placement: Placement, until_end: ExitStack) -> None:
    """Prepare a call of Keras's method `name`. Outside a job, this changes nothing.

    Raises `BackendError` inside a callback that acts on rank 0 alone.
    """
    job = placement.backend.job
    if job is None:
        return
    until_end.enter_context(explaining(job))
    writers.refuse_alone(name)
    if "callbacks" not in arguments:
        return
    if job.rank:
        arguments["verbose"] = 0
    callbacks = listed(arguments["callbacks"])
    for callback in filter(writers.writes, callbacks):
        until_end.enter_context(writers.on_rank_0(callback, job, placement))
    if name == "fit":
        last = AgreedStop.of(job, _agreed(job, callbacks))
        last.watch(arguments["self"], until_end)
        arguments["callbacks"] = _with_last(arguments["callbacks"], last, until_end)


@contextmanager
def explaining(job: Job) -> Iterator[None]:
    """Inside, an error of the framework that follows from another process's end names that process."""
    try:
        yield
    except Exception as error:
        if (explained := job.explained(error)) is error:
            raise
        raise explained from error


def _agreed(job: Job, callbacks: Sequence[Any]) -> bool:
    """Whether the processes agree on a stop after each batch. Raises `ModelError` if only some of them restore a backup."""
    own = [sum(map(writers.restores, callbacks)), any(map(may_stop_between_batches, callbacks))]
    of_all = [json.loads(each) for each in job.exchange("begins fit", json.dumps(own).encode())]
    numbers = [number for number, _ in of_all]
    other = next((rank for rank, number in enumerate(numbers) if number != numbers[0]), None)
    if other is not None:
        raise ModelError(
            f"fit has {numbers[0]} BackupAndRestore on rank 0, and {numbers[other]} on rank {other}",
            "give it to fit in every process: only rank 0 reads and writes the backup",
        )
    return any(stops for _, stops in of_all)


def _with_last(callbacks: Any, last: AgreedStop, until_end: ExitStack) -> Any:
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        return [*listed(callbacks), last]
    last.join(callbacks, until_end)
    return callbacks
