"""A process group of `torch.distributed` in a script that one process runs: it raises an error that names it.

Not here: scripts that torchrun, srun or mpirun started several times, which may make one (`launchers/`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from abreast.after_import import after_import
from abreast.errors import ModelError
from abreast.launchers import read_world
from abreast.replacing import replaced

HINT = (
    "take dist.init_process_group(), DistributedDataParallel and DistributedSampler out of the script, and make batch_size that "
    "of all devices; or start its processes with torchrun, srun or mpirun"
)
_is_refused = False


@contextmanager
def watched() -> Iterator[None]:
    """Inside, a function of ours replaces `init_process_group` for a script that imports `torch.distributed`."""
    with ExitStack() as stack:

        def watch(module: ModuleType) -> None:
            if (plain := getattr(module, "init_process_group", None)) is not None:
                stack.enter_context(replaced(module, "init_process_group", _unless_refused(plain)))

        stack.callback(after_import("torch.distributed", watch))
        yield


@contextmanager
def refused() -> Iterator[None]:
    """Inside `watched`, refuse even a process group that could be made: the models train on several devices of abreast."""
    global _is_refused
    before, _is_refused = _is_refused, True
    try:
        yield
    finally:
        _is_refused = before


def _unless_refused(plain: Any) -> Any:
    @functools.wraps(plain)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if caller.startswith("abreast.") or read_world().size > 1:
            return plain(*args, **kwargs)
        if _is_refused:
            raise _error()
        try:
            return plain(*args, **kwargs)
        except ValueError as error:
            if "environment variable" in str(error):  # a launcher's variable is missing
                raise _error() from None
            raise

    return init_process_group


def _error() -> ModelError:
    what = "the script makes a process group (torch.distributed.init_process_group)"
    return ModelError(f"{what}, and abreast combines the devices itself", HINT)
