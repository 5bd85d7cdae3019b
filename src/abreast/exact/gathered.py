"""Layers and operations that relate rows: during a step, every replica runs them on the rows of all replicas.

Every replica computes the same outputs and continues with its own rows. So values and gradients equal those of one device. The
work of these members is not shared between replicas. Imports no framework.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from abreast.exact.calls import call_name
from abreast.exact.members import members
from abreast.exact.on_all_rows import joined, on_all_rows, own_rows
from abreast.exact.relations import CallAxes, Relations
from abreast.exact.replica import current
from abreast.exact.tensor_rows import mapped
from abreast.replacing import put_on


@contextmanager
def gathering(model: Any, found: Relations | None) -> Iterator[None]:
    """Inside, run the members that `found` names on the rows of all replicas."""
    if not found:
        yield
        return
    everyone = members(model)
    with ExitStack() as undo:
        for number, calls in found.gathered.items():
            member = everyone[number]
            name = call_name(member)
            undo.callback(put_on(member, **{name: _of_all_rows(number, calls, member, getattr(member, name))}))
        for number in found.sums:
            undo.callback(put_on(everyone[number], _abreast_sums=True))
        yield


def _of_all_rows(
    number: int, calls: tuple[CallAxes, ...], member: Any, plain: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        running = current()
        if running is None:
            return plain(*args, **kwargs)
        axes = calls[running.calls[number] % len(calls)]
        running.calls[number] += 1
        args, kwargs = mapped((args, kwargs), axes.inputs, functools.partial(joined, running))
        with on_all_rows(running, member, in_call=True):
            outputs = plain(*args, **kwargs)
        return mapped(outputs, axes.outputs, functools.partial(own_rows, running))

    return call
