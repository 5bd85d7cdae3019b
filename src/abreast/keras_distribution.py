"""`keras.distribution` in a script whose models abreast places: `DataParallel` is taken over, all else is refused.

Not here: strategies of `tf.distribute` (`backend/tensorflow/strategies.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import keras

from abreast.errors import LaunchError, ModelError
from abreast.keras_private import distribution as private
from abreast.replacing import replaced
from abreast.taken_over import take_over

_HOSTS = "leave out keras.distribution.initialize: abreast joins the processes of a launcher itself"


@contextmanager
def taken_over() -> Iterator[None]:
    """Inside, a script may set a `DataParallel`. Keras ignores it, because abreast places models on its devices."""
    set_by_script: list[Any] = []
    plain_initialize = keras.distribution.initialize

    def set_distribution(value: Any) -> None:
        if value is not None:
            accept(value)
        set_by_script[:] = [value]

    def distribution() -> Any:
        return set_by_script[0] if set_by_script else None

    def initialize(job_addresses: Any = None, num_processes: Any = None, process_id: Any = None) -> None:
        if (num_processes or 1) > 1 or "," in (job_addresses or ""):
            raise LaunchError(
                f"keras.distribution.initialize(num_processes={num_processes}, ...): several hosts", _HOSTS
            )
        plain_initialize(job_addresses, num_processes, process_id)

    with ExitStack() as stack:
        for place, name, own in (
            (private.module, "set_distribution", set_distribution),  # for `DataParallel().scope()`
            (keras.distribution, "set_distribution", set_distribution),
            (keras.distribution, "distribution", distribution),
            (keras.distribution, "initialize", initialize),
        ):
            stack.enter_context(replaced(place, name, own))
        yield


def accept(distribution: Any) -> None:
    """Report once that a `DataParallel` is taken over. Raises `ModelError` for other distributions and several hosts."""
    name = f"keras.distribution.{type(distribution).__name__}"
    if not isinstance(distribution, keras.distribution.DataParallel):
        raise ModelError(
            f"the script sets a {name}, which abreast cannot take over: abreast keeps a whole copy of a model on each device",
            "leave keras.distribution out where the model fits on one device; else train with plain Keras, without abreast",
        )
    if getattr(distribution, "_is_multi_process", False):
        raise LaunchError(f"the script sets a {name} over several processes", _HOSTS)
    take_over(name, "it places nothing, and a batch is that of all devices")


def accept_current() -> None:
    """`accept` the distribution that is set in Keras, if any."""
    if (distribution := private.current()) is not None:
        accept(distribution)


def refuse_current() -> None:
    """Raise `ModelError` if a distribution is set in Keras."""
    distribution = private.current()
    if distribution is not None:
        raise ModelError(
            f"a keras.distribution.{type(distribution).__name__} is set, and abreast distributes models, too",
            "take keras.distribution out of the script: abreast places models by itself",
        )
