"""Steps that several ranks run together, seen from this process. Not here: one rank's own part (`step.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from abreast import exact
from abreast.backend.agreement import digest_of_text
from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.torch.devices import here
from abreast.backend.torch.mode import StagedBatch
from abreast.backend.torch.own_optimizers import check_optimizers
from abreast.backend.torch.probe import TorchProbe
from abreast.backend.torch.staging import begin_copy
from abreast.backend.torch.step_lock import StepLock
from abreast.backend.torch.team_model import team_model_of
from abreast.feed import Handed, HostBatch, Taken, take
from abreast.staging import Stage


@dataclass(frozen=True)
class Moment:
    """The place of a step in its call. `look`: the user's code may have changed the model since its last step.

    `checked`: the batch was checked for layers that relate its rows. `by_hand`: it is the only step of its call
    (`train_on_batch`). `changed` is called if the user's code has changed the model's Python state. `rows` then returns a few
    rows by which the ranks compare what they compute, if the batch was checked before or after that change. `meanwhile` may be
    called once, where the step waits for other ranks.
    """

    look: bool
    checked: bool
    by_hand: bool
    changed: Callable[[], None]
    rows: Callable[[], Any]
    meanwhile: Callable[[], None] | None


class Ranks(Protocol):
    """The processes that take part: workers that this process leads, or processes that a launcher started."""

    step_lock: StepLock

    def prepared(
        self, kind: Kind, model: Any, placement: Placement, taken: Taken[StagedBatch], moment: Moment
    ) -> Callable[[], Any]:
        """Give all ranks the model and their shards; returns a function that runs the step."""
        ...

    def accept_state(self, model: Any) -> None:
        """Record, before the user's code runs, that all ranks have the present Python state."""
        ...

    def kept_outputs(self, outputs: Any, counts: Sequence[int] | None) -> Any:
        """The outputs of `predict` that this process keeps; see `LaunchedProcess`."""
        ...


_ROWS = 4  # by which the ranks compare what they compute


class JointSteps:
    """The steps of one kind of a model on all ranks."""

    def __init__(
        self,
        kind: Kind,
        model: Any,
        placement: Placement,
        stage: Stage[StagedBatch],
        ranks: Ranks,
        counts: Callable[[tuple[int, ...]], tuple[int, ...]] = tuple,
    ) -> None:
        """`counts` turns the number of rows of each process into the number of rows of each device."""
        if placement.num_devices > 1:
            check_optimizers(model)
        self._kind, self._model, self._placement = kind, model, placement
        self._counts = counts
        self._stage, self._ranks = stage, ranks
        self._check = exact.RowCheck(kind, model, placement.check_rows)
        self._compares = False  # whether the ranks compare what they compute before the next step
        self._has_told = placement.num_devices == 1  # of the user's code that every rank runs

    def run(self, batches: Iterator[Any]) -> Any:
        """See `StepFunction.run`."""
        model, ranks = self._model, self._ranks
        taken = take(batches, self._stage, self._kind)
        if taken.counts is not None:
            taken.staged.counts, taken.staged.digest = self._counts(taken.counts), digest_of_text(str(taken.counts))
        # Between two steps of `train_on_batch` the user's code runs.
        handed = batches if isinstance(batches, Handed) else None
        own_results = gives_results_by_users_code(model)
        look = handed is None or handed.after_users_code or own_results
        accept = handed is None or handed.before_users_code or own_results
        with ranks.step_lock:
            result = self._prepared(taken, look, handed)()
            ranks.step_lock.note_step(model)
            if accept:
                ranks.accept_state(model)
        if self._kind == "predict":
            return self._ranks.kept_outputs(result, taken.counts)
        return model.get_metrics_result() if result is None else result

    def _prepared(self, taken: Taken[StagedBatch], look: bool, handed: Handed | None) -> Callable[[], Any]:
        try:
            if look:
                _build(self._model, taken.host)
            self._check.meet(taken.host if taken.is_whole else None)
            checked = self._check.is_due
            if checked:
                self._check_rows(taken)
            if not self._has_told:
                exact.tell_of_effects(self._model, self._kind, self._placement.num_devices)
                self._has_told = True
            if self._kind != "predict":
                exact.state_rule_of_own_step(self._kind, self._model, taken.staged.counts)
            meanwhile = None if handed is None else handed.read_early
            changed, rows = partial(self._check_again, taken), partial(self._compared_rows, taken)
            moment = Moment(look, checked, handed is None, changed, rows, meanwhile)
            return self._ranks.prepared(self._kind, self._model, self._placement, taken, moment)
        except BaseException:
            self._stage.discard(taken.staged)
            raise

    def _compared_rows(self, taken: Taken[StagedBatch]) -> Any:
        """The rows by which the ranks compare what they compute; None if this batch was not checked."""
        is_wanted, self._compares = self._compares, False
        return taken.host.telling_rows(min(_ROWS, taken.staged.counts[0])) if is_wanted else None

    def _check_again(self, taken: Taken[StagedBatch]) -> None:
        self._check.model_changed()
        if self._check.is_due:
            self._check_rows(taken)

    def _check_rows(self, taken: Taken[StagedBatch]) -> None:
        own_step = exact.overrides_step(self._model, "train") and self._kind == "train"
        probe = TorchProbe(self._model, here().startswith("gpu"), own_step)
        batch, counts = taken.host, taken.staged.counts

        def first(count: int) -> Any:
            return begin_copy(batch.telling_rows(count), here()).ready()

        # All processes know this number: rank 0 has at least that many rows, and its findings are used.
        known = team_model_of(self._model)
        with nullcontext() if known is None else known.restoring():
            self._check(batch.rows if taken.is_whole else counts[0], counts[0], batch.num_bytes, first, probe)
        self._compares = not self._check.is_due  # else the batch has too few rows


def times_of_rank(rank: int, device: str, placement: Placement) -> DeviceTimes:
    """The times of the caller's device, of rank `rank`: the caller does not see the other devices."""
    on_cpu = device.startswith("cpu")
    sums = "its waiting for other ranks is all-reduce" if on_cpu else "all-reduce on GPUs is not told apart"
    return DeviceTimes((placement.devices[rank],), on_cpu, (f"only rank {rank} is seen; {sums}",))


def gives_results_by_users_code(model: Any) -> bool:
    """Whether code of the user's gives the logs of a step: it runs in this process only, after the step."""
    return exact.is_users(model, "get_metrics_result")


def _build(model: Any, batch: HostBatch) -> None:
    """Create the variables of a model that is not built yet, as may be at `predict`."""
    if not all(layer.built for layer in model._flatten_layers()):
        with torch.no_grad():
            row = begin_copy(batch.first_rows(1), here())
            model.predict_step(row.ready())
