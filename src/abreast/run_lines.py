"""The lines that `abreast run` prints: at the first training, and at the end of a script that trained nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from abreast import first_use
from abreast.backend.registry import title
from abreast.errors import LaunchError
from abreast.launchers import World, read_world
from abreast.shares import shares_of
from abreast.stderr import tell
from abreast.units import counted

if TYPE_CHECKING:
    from abreast.backend.contract import Placement


class RunLines:
    """Reports the first training of a script, or, at its end, that there was none."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._has_trained = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, the first training is reported."""
        first_use.listen(self._first)
        try:
            yield
        finally:
            first_use.listen(None)

    def _first(self, placement: Placement, rows: int | None) -> None:
        self._has_trained = True
        if _is_first_here():
            tell(training_line(placement.backend.name, placement.devices, rows, read_world()))

    def end(self, has_keras: bool) -> None:
        """Report, at the end of a script without an error, if it trained nothing."""
        if not _is_first_here():
            return
        if not has_keras:
            tell(f"{self._target} imported no Keras, so nothing was placed on devices")
        elif not self._has_trained:
            tell(f"{self._target} trained nothing through fit; {_else()}")


def _else() -> str:
    """A text on the actions of a script that trained nothing, as far as they are known."""
    devices = first_use.computes_on()
    if devices is None:
        return "a training loop of its own runs on one device"
    names = _where(devices, read_world())
    return f"it evaluated or predicted on {names}; a training loop of its own would run on one device"


def _is_first_here() -> bool:
    """Whether this process prints for its host."""
    try:
        return read_world().local_rank == 0
    except LaunchError:  # invalid variables: nothing has read them before, because nothing was placed
        return True


def training_line(framework: str, devices: tuple[str, ...], rows: int | None, world: World) -> str:
    """A line such as `training with JAX on gpu:0, gpu:1: 64 rows in a step, 32 on each device`."""
    shared = "" if rows is None else f": {counted(rows, 'row')} in a step{_each(rows, len(devices), world)}"
    return f"training with {title(framework)} on {_where(devices, world)}{shared}"


def _where(devices: tuple[str, ...], world: World) -> str:
    if world.size > 1:
        here = f"{world.local_size} of them on host {world.host}"
        return f"{world.size} ranks of {world.source}, {here} (this is rank {world.rank})"
    is_simulated = len(devices) > 1 and devices[0].startswith("cpu")
    return f"{', '.join(devices)}{' (simulated on the CPU)' if is_simulated else ''}"


def _each(rows: int, num_devices: int, world: World) -> str:
    if num_devices == 1:
        return ""
    counts = sorted(set(shares_of(rows, num_devices).counts))
    return f", {' or '.join(map(str, counts))} on each {'rank' if world.size == num_devices else 'device'}"
