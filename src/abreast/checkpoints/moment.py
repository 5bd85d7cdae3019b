"""The state of a `fit` at one moment, as a checkpoint holds it: read from a running `fit`, and restored in another process.

It has the variables, random generators, places in the sources, `History`, states of callbacks, and the model's attributes that
callbacks changed. Not here: the times of reading and restoring (`fit.py`), and the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from abreast.backend.fingerprint import settings
from abreast.checkpoints import generators, optimizers, rows, variables
from abreast.checkpoints.callback_state import CallbackStates
from abreast.checkpoints.fingerprint import check_replaced
from abreast.checkpoints.model_attributes import ModelAttributes
from abreast.checkpoints.place import Keeper, Place
from abreast.checkpoints.plain import pack, unpack
from abreast.checkpoints.snapshot import Snapshot
from abreast.stderr import tell_once

_FLAG = "stop_training"


@dataclass
class RunningFit:
    """The parts of a `fit` that a checkpoint reads and sets."""

    model: Any
    callbacks: CallbackStates
    train: Keeper
    validation: Keeper | None
    attributes: ModelAttributes
    fingerprint: Callable[[], dict[str, Any]]
    spare: Callable[[], Mapping[str, Any]] = dict  # arrays of a finished checkpoint, for reuse
    wanted: variables.Wanted = iter
    logs: Any = None  # of the last step

    def hold(self) -> None:
        """Remember the present values, before any hook of a resumed `fit`: they apply where a saved state lacks a value."""
        self.callbacks.hold()
        self.attributes.hold()

    def read(self, epoch: int, steps: int) -> Snapshot:
        """The state between two steps: `steps` steps of the running `epoch` are done."""
        return self.with_variables(self.read_small(epoch, steps))

    def with_variables(self, small: Snapshot) -> Snapshot:
        """A state that begins with the present variables, so that names have the same order in every checkpoint."""
        arrays = variables.read(self.model, self.spare(), self.wanted)
        for name in small.tensors:  # values before a validation; the devices' sums have changed since
            arrays.pop(f"sums/{name}", None)
        return Snapshot({**arrays, **small.tensors}, {**small.values, "optimizers": optimizers.read(self.model)})

    def read_small(self, epoch: int, steps: int, validating: bool = False) -> Snapshot:
        """The state without variables. `validating`: Keras has begun a validation, and no step of it is done."""
        tensors: dict[str, Any] = {}
        history = self.model.history
        values = {
            "epoch": epoch,
            "steps": steps,
            "validating": validating,
            "fingerprint": self.fingerprint(),
            _FLAG: bool(self.model.stop_training),
            "generators": pack(generators.read(self.model), "generators", tensors),
            "places": {
                name: pack(asdict(place), f"places/{name}", tensors) for name, place in self._places(steps, validating)
            },
            "history": {"epoch": list(history.epoch), "logs": pack(history.history, "history", tensors)},
            "logs": pack(_plain(self.logs or {}), "logs", tensors),
            "callbacks": self.callbacks.read(tensors),
            "reached": self.callbacks.read_reached(tensors),
            "rows": rows.read(self.callbacks.callbacks),
            "attributes": self.attributes.read(tensors),
            "replaced": self._replaced(),
            "compiled": self.attributes.compiled.read(),
        }
        return Snapshot(tensors, values)

    def _replaced(self) -> dict[str, str] | None:
        """The settings that changed because callbacks replaced parts of the model: a restart cannot restore these."""
        replaced = self.attributes.replaced()
        if not replaced:
            return None
        tell_once(
            f"{', '.join(replaced)} of the model was replaced in the middle of a fit: a restart has that of the script again, "
            "and goes on only if its settings are the same"
        )
        begin = self.fingerprint()["settings"]
        return {name: value for name, value in _compiled_settings(self.model).items() if begin.get(name) != value}

    def go_to(self, saved: Snapshot) -> None:
        """Make the sources begin at their saved places in the next epoch."""
        for name, keeper in self._keepers().items():
            if (packed := saved.values["places"].get(name)) is not None:
                keeper.go_to(_unpacked(packed, saved.tensors))

    def write(self, saved: Snapshot, *, move: bool = True, epoch_over: bool = False, ended: bool = False) -> None:
        """Restore a saved state.

        Without `move`, the sources stay where they are. `epoch_over`: the data source has had its hook at the end of the epoch.
        `ended`: the `fit` has ended, and reads no more from its sources.
        """
        values, tensors = saved.values, saved.tensors
        self.attributes.write(values["attributes"], tensors)
        self.attributes.compiled.write(values.get("compiled"))
        is_last = ended or not move or not values["steps"]
        if is_last and (replaced := values.get("replaced")) is not None:
            present = _compiled_settings(self.model)
            check_replaced(replaced, {name: present.get(name, "nothing") for name in replaced})
        variables.write(self.model, tensors)
        self.callbacks.write(values["callbacks"], tensors)
        self.callbacks.write_reached(values.get("reached", {}), tensors)
        if not ended:
            rows.write(self.callbacks.callbacks, values.get("rows", []))
        history = self.model.history
        history.epoch[:] = values["history"]["epoch"]
        history.history.clear()
        history.history.update(unpack(values["history"]["logs"], tensors))
        self.model.stop_training = values[_FLAG]
        if is_last:
            self.callbacks.let_go()
            self.attributes.let_go()
        self.logs = unpack(values["logs"], tensors)
        self._write_places(values, tensors, move, ended)
        if epoch_over:
            self.train.ended(_unpacked(values["places"]["train"], tensors))

    def _write_places(self, values: Mapping[str, Any], tensors: Mapping[str, Any], move: bool, ended: bool) -> None:
        places = {name: _unpacked(packed, tensors) for name, packed in values["places"].items()}
        for name, keeper in self._keepers().items() if ended else ():
            if name in places:
                keeper.pass_over(places[name])
        now = unpack(values["generators"], tensors)
        if (ended or not move) and (ahead := places["train"].drawn_ahead):
            present = generators.read(None)
            now |= {name: present[name] for name in ahead}
        generators.write(self.model, now)
        for name, keeper in self._keepers().items():
            if name in places and ended:
                keeper.ended(places[name])
            elif name in places and move:
                keeper.go_to(places[name])

    def _places(self, steps: int, validating: bool) -> Iterator[tuple[str, Place]]:
        yield "train", self.train.place(steps)
        if self.validation is not None:
            yield "validation", self.validation.place(0, validating)

    def _keepers(self) -> dict[str, Keeper]:
        found = {"train": self.train, "validation": self.validation}
        return {name: keeper for name, keeper in found.items() if keeper is not None}


def _unpacked(packed: Any, tensors: Mapping[str, Any]) -> Place:
    return Place.of(unpack(packed, tensors))


def _compiled_settings(model: Any) -> dict[str, str]:
    """The settings of a model's losses, metrics and optimizers. Other settings change by themselves at their first use."""
    words = ("loss", "metric", "optimizer")
    return {name: value for name, value in settings(model).items() if any(each in name for each in words)}


def _plain(logs: Any) -> Any:
    """Logs with plain numbers, as Keras shows them; an array or dictionary from a metric stays."""
    if isinstance(logs, Mapping):
        return {name: _plain(value) for name, value in logs.items()}
    try:
        return float(logs)
    except (TypeError, ValueError, RuntimeError):
        return logs
