"""`Probe`: the functions of a backend that the search for related rows uses (`relation_search.py`)."""

from __future__ import annotations

from typing import Any, Protocol


class Probe(Protocol):
    """The backend's part of the search: framework state that Keras does not see, and the precision of the kernels."""

    noise: float  # largest relative difference of a kernel's results between batches of different lengths
    is_one_process: (
        bool  # whether one process runs all replicas, so that they share variables which the model does not hold
    )

    shares_python: bool  # whether all replicas run as Python in this process, with the same Python objects

    def unchanged(self) -> Any:
        """A context that restores, at its end, the framework's random generators, gradients and the state of its own modules."""
        ...

    def rewind_generators(self) -> None:
        """Set the framework's random generators to their state when `unchanged` was entered."""
        ...

    def drew(self) -> bool:
        """Whether any code except Keras drew from these generators since `rewind_generators`."""
        ...

    def foreign(self) -> str:
        """The attribute with a framework variable that a run changed and Keras does not track; "" if there is none."""
        ...

    def knows(self, member: Any) -> bool:
        """Whether a member relates rows in a way that the backend handles itself."""
        ...
