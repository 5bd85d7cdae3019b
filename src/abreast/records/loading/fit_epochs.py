"""The batches of each epoch of a `fit`, as arithmetic on places. `fit_callback.py` learns the epochs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from abreast.records.loading.sampling import Place


@dataclass(frozen=True)
class FitEpochs:
    """The places of a `fit` that begins its epoch `first` at the batch `begin`.

    With fewer `steps` than batches, several epochs of `fit` share one epoch of the records, as in Keras: each takes the next
    `steps` batches, and the last one takes the remaining batches.
    """

    first: int
    begin: Place
    num_batches: int
    steps: int | None = None

    @property
    def _steps(self) -> int:
        return min(self.steps or self.num_batches, self.num_batches)

    @property
    def _parts(self) -> int:
        """The number of epochs of `fit` in one epoch of the records."""
        return -(-self.num_batches // self._steps)

    @property
    def steps_left(self) -> int:
        """The number of steps of the first epoch of `fit`."""
        return min(self._steps - self.begin.batch % self._steps, self.num_batches - self.begin.batch)

    def place(self, epoch: int) -> Place:
        """The place of the first batch of an epoch of `fit`."""
        if epoch == self.first:
            return self.begin
        epochs, part = divmod(self.begin.batch // self._steps + epoch - self.first, self._parts)
        return Place(self.begin.epoch + epochs, part * self._steps)

    def after(self, epoch: int, steps_done: int) -> tuple[int, Place]:
        """Epoch and place of the step that follows `steps_done` steps of an epoch."""
        place, following = self.place(epoch), self.place(epoch + 1)
        batch = place.batch + steps_done
        end = following.batch if following.epoch == place.epoch else self.num_batches
        return (epoch, Place(place.epoch, batch)) if batch < end else (epoch + 1, following)


def num_validations(epoch: int, freq: int | Collection[int]) -> int:
    """The number of validations of a `fit` before an epoch, given its `validation_freq`."""
    return epoch // freq if isinstance(freq, int) else sum(1 <= each <= epoch for each in freq)
