"""The numbers of devices on which a job of the catalogue runs in `make test`. `make test-full` runs all on all.

The present commit chooses: each commit runs a third of the jobs, each on one backend and one number of devices. Nine commits in
a row run every job on every backend, and 27 on every number of devices.
"""

from __future__ import annotations

from tests.contract import catalogue
from tests.harness.client import BACKENDS

NUMBERS = (2, 3, 4)
JOBS = [name for name in catalogue.CASES if name not in catalogue.EVERY_NUMBER_OF_DEVICES]


def devices_in_turn(name: str, backend: str, turn: int) -> tuple[int, ...]:
    """The numbers of devices for a job on a backend at this turn: one, or none."""
    round_, place = divmod(turn + JOBS.index(name), 3 * len(BACKENDS))
    return (NUMBERS[round_ % len(NUMBERS)],) if place == 3 * BACKENDS.index(backend) else ()
