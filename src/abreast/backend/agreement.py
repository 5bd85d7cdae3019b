"""Agreement of a launcher's processes while they train: they compare their batches, steps and values; a difference is an error.

Each process runs the user's script. Variables that a script set between two calls get rank 0's values. Batches, the steps
themselves, and values that code sets between the steps must be equal. Not here: how messages travel (`exchange.py`). Imports no
framework.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abreast.backend.exchange import Exchange
from abreast.errors import BackendError, DataError, ModelError

_SETTINGS = (
    "give layers, losses and optimizers the same settings in every process, random ones too: seed Python and NumPy alike before "
    "the model is made"
)


@dataclass
class CallRecord:
    """The record of a call in this process: a checksum of its batches, and one for each variable that was set between steps.

    `doubtful`: variables that were set or only read, for example by a callback that saves them. Their final values are compared.
    """

    batches: int = 0
    assigned: dict[str, int] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)


UNSEEN = 0  # the checksum of a program that was not read


@dataclass(frozen=True)
class Program:
    """The steps of a process: their settings by name, and a checksum of the settings."""

    checksum: int
    settings: Mapping[str, str]

    @staticmethod
    def of(settings: Mapping[str, str], left_by_steps: Container[str] = ()) -> Program:
        """The program with these settings, without `left_by_steps`: their values may follow from a process's own rows."""
        counting = {name: value for name, value in settings.items() if name not in left_by_steps}
        return Program(digest_of_text(json.dumps(counting, sort_keys=True)), counting)


class Agreement:
    """Comparisons of this process's calls with the calls of the other processes."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._thread: int | None = None  # the thread of the running call
        self._seen = CallRecord()
        self._starts = False  # whether the next step is the first one of a call
        self.present: Callable[[str], int] = lambda name: 0  # the checksum of a variable's present value

    def of_rank_0(self, doing: str, text: str) -> str:
        """The text of rank 0, in every process."""
        own = text.encode() if self._exchange.rank == 0 else b""
        return self._exchange.exchange(doing, own)[0].decode()

    def begins_call(self, names: Sequence[str], changed: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Indices of the variables that any process set since the last step, and of those whose values differ between processes.

        `names`: every variable, with its shape and type. `changed`: checksums of the variables that this process set, by index.
        """
        self._refuse_threads()
        self._starts = True
        own = {"fingerprint": digest_of_text(json.dumps(names)), "changed": changed}
        said = [json.loads(each) for each in self._exchange.exchange("begins a call", json.dumps(own).encode())]
        if any(each["fingerprint"] != said[0]["fingerprint"] for each in said):
            self._refuse_other_model(names)
        all_changed = sorted({int(i) for each in said for i in each["changed"]})
        differ = [i for i in all_changed if len({each["changed"].get(str(i)) for each in said}) > 1]
        return all_changed, differ

    def _refuse_threads(self) -> None:
        if self._thread not in (None, threading.get_ident()):
            raise BackendError(
                "two threads train, evaluate or predict at a time, and the order of their steps would differ between processes",
                "let one thread make the calls, or start one process",
            )
        self._thread = threading.get_ident()

    def _refuse_other_model(self, names: Sequence[str]) -> None:
        said = self._exchange.exchange("names its variables", json.dumps(names).encode())
        of_all = [json.loads(each) for each in said]
        rank, other = next((rank, each) for rank, each in enumerate(of_all) if each != of_all[0])
        first = next(i for i, (a, b) in enumerate(zip([*of_all[0], None], [*other, None], strict=False)) if a != b)
        of_rank_0, of_other = (each[first] if first < len(each) else "none" for each in (of_all[0], other))
        raise ModelError(
            f"the processes train different models: variable {first} is {of_rank_0} on rank 0, and {of_other} on rank {rank}",
            "start the same script with the same arguments on every host, and make the same models in the same order in every "
            "process: Keras numbers their names",
        )

    def before_step(self, batch: int, program: Callable[[], Program] | int) -> None:
        """Count a step. Before the first one of a call, compare batch and program. `batch` is a checksum."""
        self._seen.batches = digest_of_text(str(batch), self._seen.batches)
        if self._starts:
            self._starts = False
            self._check_same("makes the first step of a call", program() if callable(program) else program)
        self._exchange.num_steps += 1

    def between_steps(self, program: Program) -> None:
        """Compare the program before a later step of a call."""
        self._check_same("compares the settings of its steps", program)

    def assigned(self, name: str, checksum: Callable[[int], int]) -> None:
        """Record that a variable was set between steps. `checksum` extends an earlier checksum by its value."""
        self._seen.assigned[name] = checksum(self._seen.assigned.get(name, 0))

    def read_or_assigned(self, name: str) -> None:
        """Record that a variable was set between steps, or only read."""
        self._seen.doubtful.add(name)

    def call_ended(self, failed: bool, program: Program | int = UNSEEN) -> None:
        """End a call of this process. Unless it failed, wait for its end in all processes, and compare their records."""
        if self._thread not in (None, threading.get_ident()):
            return  # it was refused
        try:
            if not failed:
                self._check_same("ends a call", program)
        finally:
            self._thread, self._seen, self._starts = None, CallRecord(), False

    def _check_same(self, moment: str, program: Program | int) -> None:
        """Compare the records of all processes. Raises `DataError` or `ModelError` if one differs from rank 0's."""
        number = program if isinstance(program, int) else program.checksum
        own = json.dumps([self._seen.batches, number, self._seen.assigned, sorted(self._seen.doubtful)])
        of_all = [json.loads(each) for each in self._exchange.exchange(moment, own.encode())]
        batches, programs, assigned, doubtful = zip(*of_all, strict=True)
        if (rank := _first_unlike(batches)) is not None:
            raise DataError(
                f"the processes read different batches: those of rank {rank} are not those of rank 0",
                "every process reads the whole data, and abreast takes its rows of each batch: leave out what gives each "
                "process a part (`shard`, a sampler, a slice by rank), and seed generators alike",
            )
        if UNSEEN not in programs and (rank := _first_unlike(programs)) is not None:
            self._refuse_other_program(rank, program)
        self._refuse_other_values(assigned)
        if names := sorted({name for each in doubtful for name in each}):
            own = json.dumps({name: self.present(name) for name in names})
            said = self._exchange.exchange("compares variables", own.encode())
            self._refuse_other_values([json.loads(each) for each in said])

    def _refuse_other_values(self, of_all: Sequence[Mapping[str, int]]) -> None:
        if (rank := _first_unlike(of_all)) is not None:
            values, others = of_all[0], of_all[rank]
            name = next(name for name in [*values, *others] if values.get(name) != others.get(name))
            raise ModelError(
                f"between steps, {name} was set to other values on rank {rank} than on rank 0: the processes trained apart",
                "let callbacks that set weights do so in every process",
            )

    def _refuse_other_program(self, rank: int, program: Program | int) -> None:
        if isinstance(program, int):
            raise ModelError(
                f"the processes train different models: the compiled step of rank {rank} is not that of rank 0",
                _SETTINGS,
            )
        own = json.dumps(program.settings).encode()
        of_all = [json.loads(each) for each in self._exchange.exchange("names its settings", own)]
        for name, value in of_all[0].items():  # a setting of only some processes may come from steps on their own rows
            values = [each.get(name) for each in of_all]
            if None not in values and (other := _first_unlike(values)) is not None:
                raise ModelError(
                    f"the processes train different models: {name} is {value} on rank 0, and {values[other]} on rank {other}",
                    _SETTINGS,
                )


def _first_unlike(values: Sequence[Any]) -> int | None:
    """The first rank whose value differs from rank 0's."""
    return next((rank for rank, value in enumerate(values) if value != values[0]), None)


def digest_of_text(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode(), before)
