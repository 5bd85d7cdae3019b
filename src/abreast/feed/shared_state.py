"""Detection of Python state that a source and the code between its reads share, and that one of them changes.

Reading ahead would change what the other one finds. Not here: random generators of a process (`shared_random.py`).
"""

from __future__ import annotations

from typing import Any

from abreast.feed.reach import MOST_OBJECTS, Key, Reach, State


def shared(source: Reach, steps: Reach) -> dict[Key, State]:
    return {key: each for key, each in source.states.items() if key in steps.states}


def beyond_comparison(source: Reach, steps: Reach) -> str:
    """Why changes of state that a source and a model's steps share could go unnoticed; "" if they could not."""
    for name, reach in (("the data source", source), ("the model's steps", steps)):
        if not reach.is_whole:
            return f"the code of {name} reaches more than {MOST_OBJECTS:,} Python objects: not all were searched"
    large = next((each.name for each in shared(source, steps).values() if each.is_large), "")
    return large and f"the data source and the model's steps share {large}, which is too large to compare at each step"


class SharedState:
    """The state that a source and a model's steps both reach, compared around each read of the source."""

    def __init__(self, source: Reach, steps: Reach) -> None:
        self._states = shared(source, steps)
        self._after: dict[Key, Any] | None = None
        self._before: dict[Key, Any] = {}
        self.changed = ""  # the name of state that has changed

    def begin_epoch(self) -> None:
        """Forget the last contents: changes between two epochs happen in plain Keras's order anyway."""
        self._after = None

    def before_read(self, is_first_step: bool) -> None:
        """Compare with the contents after the last read, also at the first step."""
        self._before = self._contents()
        if self._after is not None:
            self._compare(self._after, self._before)

    def after_read(self) -> None:
        self._after = self._contents()
        self._compare(self._before, self._after)

    def _compare(self, old: dict[Key, Any], new: dict[Key, Any]) -> None:
        if not self.changed and old != new:
            self.changed = next(self._states[key].name for key in new if old[key] != new[key])

    def _contents(self) -> dict[Key, Any]:
        return {key: _read(each) for key, each in self._states.items()}


def _read(state: State) -> Any:
    try:
        return state.read()
    except Exception:  # of the user's own classes, or because a step in another thread changes it now
        return None
