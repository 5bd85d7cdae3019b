"""`Probe`: the functions of a backend that the search for related rows uses (`relation_search.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Probe(Protocol):
    """The backend's part of the search: framework state that Keras does not see, and the precision of the kernels."""

    noise: float  # largest relative difference of a kernel's results between batches of different lengths
    is_one_process: (
        bool  # whether one process runs all replicas, so that they share variables which the model does not hold
    )

    has_own_python: bool  # whether each replica runs as Python in a process of its own, with Python objects of its own

    def unchanged(self) -> Any:
        """A context that restores, at its end, the framework's random generators, gradients and the state of its own modules."""
        ...

    def rewind(self, generators: bool = True) -> None:
        """Restore what `unchanged` restores at its end: weights that a step changes without Keras and, if wanted, generators."""
        ...

    def drew(self) -> bool:
        """Whether any code except Keras drew from these generators since `rewind`."""
        ...

    def reads_values(self) -> bool:
        """Whether the user's code read values of tensors in Python, by which it may decide."""
        ...

    def depends_on_values(self) -> bool:
        """Whether any code did so, or made tensors whose shapes depend on values: replicas may take different paths."""
        ...

    def gradients(self, compute: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> list[Any] | None:
        """The gradients of a number that `compute` makes of tensors with these values (None: of no effect).

        None if `compute` returns None.
        """
        ...

    def foreign(self) -> str:
        """The attribute with a framework variable that a run changed and Keras does not track; "" if there is none."""
        ...
