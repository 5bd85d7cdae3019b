"""`Probe`: the functions of a backend that the search for related rows uses (`relation_search.py`)."""

from __future__ import annotations

from typing import Any, Protocol


class Probe(Protocol):
    """The backend's part of the search: framework state that Keras does not see, and the precision of the kernels."""

    noise: float  # largest relative difference of a kernel's results between batches of different lengths
    is_one_process: (
        bool  # whether one process runs all replicas, so that they share variables which the model does not hold
    )

    is_eager: bool  # whether steps run as Python, so that what they keep are values
    shares_python: bool  # whether all replicas run as Python in this process, with the same Python objects

    def unchanged(self) -> Any:
        """A context that restores, at its end, the framework's random generators, gradients and the state of its own modules."""
        ...

    def rewind_weights(self) -> None:
        """Restore the weights that a user's own step changed without Keras since `unchanged` was entered."""
        ...

    def rewind_generators(self) -> None:
        """Set the framework's random generators to their state when `unchanged` was entered."""
        ...

    def drew(self) -> bool:
        """Whether any code except Keras drew from these generators since `rewind_generators`."""
        ...

    def reads_values(self) -> bool:
        """Whether the user's code read values of tensors in Python, by which it may decide."""
        ...

    def depends_on_values(self) -> bool:
        """Whether any code did so, or made tensors whose shapes depend on values: replicas may take different paths."""
        ...

    def foreign(self) -> str:
        """The attribute with a framework variable that a run changed and Keras does not track; "" if there is none."""
        ...

    def knows(self, member: Any) -> bool:
        """Whether a member relates rows in a way that the backend handles itself."""
        ...
