"""A pool of threads that decode or encode, with an error that a user understands when the system starts no more threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from abreast.errors import DataError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Pool(ThreadPoolExecutor):
    """A pool that starts its threads when there is work. `option` is the user's name for the number of threads."""

    def __init__(self, num_threads: int, name: str, option: str) -> None:
        super().__init__(num_threads, thread_name_prefix=name)
        self._num_threads = num_threads
        self._option = option

    def submit(
        self, function: Callable[_Arguments, _Result], /, *arguments: _Arguments.args, **settings: _Arguments.kwargs
    ) -> Future[_Result]:
        """Submit work to the pool. Raises `DataError` if the system cannot start a thread."""
        try:
            return super().submit(function, *arguments, **settings)
        except RuntimeError as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # Ctrl-C within Python's semaphore: it loses its lock
                raise error.__context__ from None
            if "start new thread" not in str(error):
                raise
            hint = f"give fewer ({self._option}), or allow more (`ulimit -u`, or the limit of the container)"
            raise DataError(f"cannot start {self._num_threads} threads: {error}", hint) from error
