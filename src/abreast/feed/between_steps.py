"""`BetweenSteps`: the code that runs between two reads of a source, and what it and the source could see of each other.

Not here: the search for that (`reach.py`, `held_by_source.py`), and its effects while the source is read (`habits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from abreast.feed.habits import Habits
from abreast.feed.held_by_source import array_held, held_by
from abreast.feed.reach import MOST_OBJECTS, Reach
from abreast.feed.shared_state import SharedState, beyond_comparison
from abreast.feed.source import Source


@dataclass(frozen=True)
class BetweenSteps:
    """The model in training, callbacks that act on batches, and the user's own steps by name.

    `saves`: whether one of Keras's callbacks saves the model's state between steps. `code`: the objects whose Python code each
    step runs; none if steps are compiled.
    """

    model: Any = None
    callbacks: tuple[Any, ...] = ()
    steps: tuple[str, ...] = ()
    saves: bool = False
    code: tuple[Any, ...] = ()

    def judge(self, source: Source, habits: Habits) -> None:
        """Let a source be read between steps, or be watched, if it and this code could see each other's effects."""
        if habits.watched:
            self._judge_code(source, habits)
        elif habits.may_change and self.callbacks:
            reach = Reach(self.callbacks)
            if array_held(reach, source.arrays):
                habits.read_between(f"{self._acting()[0]} acts on batches, and holds an array of the training data")
            elif not reach.is_whole:
                habits.read_between(
                    f"{self._acting()[0]} acts on batches, and reaches more than {MOST_OBJECTS:,} Python objects"
                )

    def _judge_code(self, source: Source, habits: Habits) -> None:
        if acting := ", ".join(self._acting()):
            habits.read_between(f"{acting} acts on batches, and the data source runs in this process and could see it")
            return
        reach = Reach([source.x])
        if held := held_by(reach, self.model):
            habits.read_between(f"the data source holds {held}")
        elif self.code:
            steps = Reach(self.code)
            if why := beyond_comparison(reach, steps):
                habits.read_between(why)
            else:
                habits.state = SharedState(reach, steps)

    def _acting(self) -> list[str]:
        return [*dict.fromkeys(type(each).__name__ for each in self.callbacks), *self.steps]
