"""Several devices in one script: this process is rank 0 and leads its own workers, one per further device.

Not here: the workers themselves (`team.py`). Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from abreast import exact
from abreast.backend.contract import Kind, Placement
from abreast.backend.instruments import DeviceTimes
from abreast.backend.torch.channel import ChannelClosed
from abreast.backend.torch.joint_steps import JointSteps, Moment, times_of_rank
from abreast.backend.torch.memory import note_requests
from abreast.backend.torch.mode import StagedBatch
from abreast.backend.torch.seeds import Generators, drawn_on_cpu, go_on_with, to_go_on_with
from abreast.backend.torch.staging import begin_copy
from abreast.backend.torch.step_lock import StepLock
from abreast.backend.torch.team import Team
from abreast.backend.torch.team_model import forget, team_model_of
from abreast.feed import HostBatch, Taken
from abreast.limits import hang_seconds
from abreast.shares import shares_of
from abreast.staging import Stage


class Leader:
    """See `mode.py`. One team serves all placements on its first devices; a placement on other devices ends it."""

    def __init__(self) -> None:
        self.step_lock = StepLock()
        self.team: Team | None = None

    def device(self, placement: Placement) -> str:
        return placement.devices[0]

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        shards = batch.cut(placement.num_devices)
        counts = shares_of(batch.rows, placement.num_devices).counts
        staged = StagedBatch(begin_copy(shards[0], placement.devices[0]), counts)
        team = self.team
        if team is not None and not team.closed and team.devices[: placement.num_devices] == placement.devices:
            with suppress(ChannelClosed):  # the step reports the cause, or sends the batch again
                staged.sent, staged.team = team.send_shards(shards), team
        return staged

    def drawn(self, placement: Placement) -> bytes | None:
        # On GPUs steps draw from generators of their own.
        return None if placement.devices[0].startswith("gpu") else drawn_on_cpu()

    def steps(
        self, kind: Kind, model: Any, placement: Placement, stage: Stage[StagedBatch]
    ) -> Callable[[Iterator[Any]], Any]:
        note_requests()
        return JointSteps(kind, model, placement, stage, self).run

    def prepared(
        self, kind: Kind, model: Any, placement: Placement, taken: Taken[StagedBatch], moment: Moment
    ) -> Callable[[], Any]:
        staged = taken.staged
        team = self._team_for(placement)
        before = team_model_of(model)
        changes = 0 if before is None else before.num_changes
        team_model = team.team_model(model, placement.num_devices, placement.batch_norm == "global", moment.look)
        if before is not None and (team_model is not before or team_model.num_changes > changes):
            moment.changed()
        team.relate(team_model, exact.related_rows(model))
        if staged.sent is None or staged.team is not team:
            staged.sent, staged.team = team.send_shards_now(taken.host.cut(placement.num_devices)), team
        if (rows := moment.rows()) is not None:
            found, again = (
                team.short_results(team_model, kind, rows),
                partial(team_model.short_results, kind, rows),
            )
            exact.announce_unlike(model, found, placement.devices, again)
        return partial(team.run, team_model, kind, staged.own, staged.sent, staged.counts, moment.meanwhile)

    def accept_state(self, model: Any) -> None:
        if self.team is not None:
            self.team.accept_state(model)

    def kept_outputs(self, outputs: Any, counts: Any) -> Any:
        return outputs

    def collect_gradients(self, model: Any) -> None:
        if self.team is not None:
            self.team.collect_gradients(model)

    def random_states(self, model: Any) -> list[Generators] | None:
        """The state of the workers' random generators; None if the model's next step seeds them."""
        with self.step_lock:
            team_model, team = team_model_of(model), self._usable_team
            if team_model is None or team is None:
                return to_go_on_with(model)
            # Changes since the last step are sent now, because sending the model later would seed the workers again.
            step = team_model.step
            return team.random_states(team.team_model(model, step.link.num_replicas, step.global_batch_norm, look=True))

    def set_random_states(self, model: Any, states: list[Generators] | None) -> None:
        """Restore the states that `random_states` returned: the model's next step sends them, perhaps to new workers."""
        with self.step_lock:
            forget(model)
            go_on_with(model, states)

    def device_times(self, placement: Placement) -> DeviceTimes:
        return times_of_rank(0, placement.devices[0], placement)

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        with self.step_lock:
            return self._team_for(placement).all_reduce_seconds(placement.num_devices, size_bytes)

    def close(self) -> None:
        """End the workers; a later step starts new ones."""
        with self.step_lock:
            if self.team is not None:
                self.team.close()
                self.team = None

    @property
    def _usable_team(self) -> Team | None:
        """The running team. Raises `WorkerError`, once, if a worker has ended since the last step: what it held is lost."""
        team = self.team
        if team is not None:
            team.raise_failure()
        return team if team is not None and team.is_usable else None

    def _team_for(self, placement: Placement) -> Team:
        """The running team if the placement's devices are its first devices; else a new team that replaces it."""
        team = self._usable_team
        if team is None or team.devices[: placement.num_devices] != placement.devices:
            while self._is_used_by_another_thread():
                self.step_lock.let_others()
            if self.team is not None:
                self.team.collect_all_gradients()
                self.team.close()
            team = self.team = Team(placement.devices, hang_seconds())
        team.allow_waiting(placement.staging.most)
        return team

    def _is_used_by_another_thread(self) -> bool:
        return self.team is not None and not self.team.closed and self.step_lock.is_of_another_thread
