"""Writes checkpoints during the training: the training thread only copies its state, and another thread writes it to the disk.

A checkpoint that cannot be written does not end the training: the older one stays, an error on stderr gives the reason, and the
next one is tried. Not here: the files (`write.py`), and the content of a checkpoint (`moment.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from abreast.checkpoints.folder import checkpoint_names, remove
from abreast.checkpoints.names import is_final, prefix_of
from abreast.checkpoints.policy import Policy
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import write_checkpoint
from abreast.errors import CheckpointError
from abreast.stderr import tell

GOES_ON = "the training goes on, but "


class Writer:
    """The writer of one `fit`. One checkpoint is written at a time."""

    def __init__(self, policy: Policy, fit: int) -> None:
        self._policy = policy
        self._fit = fit
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._spare: Mapping[str, Any] = {}

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wanted(self, num_elements: Mapping[str, int]) -> Iterable[str]:
        """The names of the variables that this process writes, given the number of elements of each variable."""
        return num_elements

    def settle(self) -> bool:
        """Name the pending checkpoint of a job. Does nothing here: a single process has nothing to agree on."""
        return False

    def take_spare(self) -> Mapping[str, Any]:
        """The arrays of the last checkpoint for reuse, if it is written completely."""
        if self.is_busy:
            return {}
        spare, self._spare = self._spare, {}
        return spare

    def write(self, name: str, snapshot: Snapshot) -> bool:
        """Write in a thread, after the previous checkpoint is written."""
        self._wait()
        self._spare = snapshot.tensors
        self._begin(lambda: self._attempt(lambda: self._written(name, snapshot), GOES_ON))
        return True

    def write_now(self, name: str, snapshot: Snapshot) -> bool:
        """Write, and return when the checkpoint is on disk; False after a failure. The trained state stays in memory."""
        self._wait()
        return self._attempt(lambda: self._written(name, snapshot))

    def close(self) -> None:
        """Wait for the thread."""
        self._wait()

    def _begin(self, work: Callable[[], Any]) -> None:
        self._thread = threading.Thread(target=work, name="abreast-checkpoint")
        self._thread.start()

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _attempt(self, work: Callable[[], None], before: str = "") -> bool:
        """Do the work; True if it succeeded. A `CheckpointError` is printed after `before`."""
        try:
            work()
        except CheckpointError as error:
            tell(f"{before}{error}")
        except BaseException as error:
            self._error = error
        else:
            return True
        return False

    def _written(self, name: str, snapshot: Snapshot) -> None:
        path = write_checkpoint(self._policy.folder, name, snapshot)
        self._remove_old(path.name)

    def _remove_old(self, newest: str) -> None:
        """Remove old checkpoints of this fit, except the newest ones and the last state of an ended fit."""
        own = [name for name in checkpoint_names(self._policy.folder) if name.startswith(prefix_of(self._fit))]
        running = [name for name in own if not is_final(name) and name != newest]
        kept = 0 if is_final(newest) else self._policy.keep - 1
        remove(self._policy.folder, running[: max(0, len(running) - kept)])
