"""Runs a user's script as Python would, with every Keras model in it placed on several devices.

The placement begins when the script imports Keras. Before that, the script may choose the backend, the visible devices and
the framework's settings, as without abreast. So this module imports `parallel` only after the script has imported Keras.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Literal

from abreast import deterministic, horovod, process_groups
from abreast.backend.registry import BACKENDS, BackendName, current_backend, require
from abreast.device_request import DeviceSpec, cpu_devices, parse_devices
from abreast.errors import AbreastError, BackendError, CheckpointError, LaunchError
from abreast.import_hooks import found
from abreast.run_lines import RunLines
from abreast.staging import Staging
from abreast.stderr import tell


@dataclass(frozen=True)
class RunOptions:
    """Options for training the models of a script, with the names of `DataParallel`'s arguments."""

    devices: DeviceSpec = "auto"
    cpu_devices: int | None = None
    backend: BackendName | None = None
    batch_norm: Literal["global", "local"] = "global"
    check_numerics: bool = False
    check_rows: bool = True
    prefetch: int | None = None
    prefetch_bytes: int | None = None
    input_timeout: float | None = None
    source: Literal["global", "per-host"] = "global"

    def __post_init__(self) -> None:
        """Raise `AbreastError` for settings that are invalid on every machine, before a framework starts."""
        parse_devices(self.devices)
        if self.cpu_devices is not None:
            cpu_devices(self.cpu_devices)
        self.staging()

    def choose_backend(self) -> None:
        """Make Keras use the backend that the options name. Raises `BackendError` if it is not installed."""
        if self.backend is not None:
            require(self.backend)
            os.environ["KERAS_BACKEND"] = self.backend

    def on_gpus(self) -> bool:
        """Whether the devices are GPUs of this machine."""
        return deterministic.on_gpus(self.devices, self.cpu_devices)

    def staging(self) -> Staging:
        return Staging(self.prefetch, self.prefetch_bytes, self.input_timeout)


def run_script(
    target: str,
    arguments: Sequence[str],
    options: RunOptions,
    *,
    module: bool = False,
    placed: Callable[[], None] | None = None,
    plain: bool = False,
    failed: Callable[[BaseException], None] | None = None,
    lines: RunLines | None = None,
) -> int:
    """Run a file (or, with `module`, a module by name) as `__main__`; returns the exit code that Python would return.

    `placed` is called after the script has imported Keras, when its models will be placed; with `plain` they stay plain Keras.
    `lines` report the devices of the training. `SystemExit` passes through. Other exceptions of the script go to `failed` and
    are printed as Python prints them, without our frames. `AbreastError` is raised only if the script cannot start, or its
    models cannot be placed.
    """
    options.choose_backend()
    start = _prepare(target, arguments, module)
    with ExitStack() as stack:
        placing = _Placing(options, stack, placed, plain)
        stack.enter_context(horovod.refused())
        stack.enter_context(process_groups.watched())
        placing.watch()
        if lines is not None:
            stack.enter_context(lines.listening())
        try:
            start()
        except (SystemExit, GeneratorExit) as end:
            if lines is not None and getattr(end, "code", 1) in (None, 0):
                lines.end(placing.placed)
            raise
        except BaseException as error:
            if error is placing.error:
                raise
            if failed is not None:
                failed(error)
            return _show(error)
        finally:
            placing.unwatch()
        if lines is not None:
            lines.end(placing.placed)
    return 0


def _prepare(target: str, arguments: Sequence[str], module: bool) -> Any:
    """Set `sys.argv` and `sys.path` as Python would; return a function that runs the code."""
    folder = "" if module else os.path.dirname(os.path.realpath(target))
    if not module:
        check_file(target)
    sys.argv = [target, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd() if module else folder
    if not module and os.path.isdir(target):
        return functools.partial(runpy.run_path, target, run_name="__main__")
    if not module:
        return functools.partial(_execute_file, os.path.abspath(target))
    if target.endswith(".py"):  # to look for it as a module would run it
        raise LaunchError(f"-m {target} names a file", f"leave out -m, or write -m {target.removesuffix('.py')}")
    try:
        found = importlib.util.find_spec(target) is not None
    except (ModuleNotFoundError, ValueError):
        found = False
    if not found:
        raise LaunchError(f"there is no module {target!r}", "without -m, give the name of a file")
    return functools.partial(runpy.run_module, target, run_name="__main__", alter_sys=True)


def check_file(script: str) -> None:
    """Raise `LaunchError` unless there is such a script: a file, or a folder that Python can run."""
    if not os.path.exists(script):
        raise LaunchError(
            f"there is no script {script!r} in {os.getcwd()}", "options of the script come after its name"
        )
    if os.path.isdir(script) and not os.path.exists(os.path.join(script, "__main__.py")):
        raise LaunchError(f"{script!r} is a folder without __main__.py", "give the name of a Python file")


def _execute_file(path: str) -> None:
    """Like `runpy.run_path`, except that `sys.argv[0]` stays as typed and `__main__` lives until the process ends."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


class _Placing(importlib.abc.MetaPathFinder):
    """Enters the placement when the script's import of Keras is complete.

    Another import (of TensorFlow, or of our own `parallel`) may import Keras, and that other module is then not yet usable.
    So all these imports are counted, and the placement begins when the outermost one is complete.
    """

    def __init__(
        self, options: RunOptions, stack: ExitStack, when_placed: Callable[[], None] | None, plain: bool
    ) -> None:
        self.options = options
        self.plain = plain
        self.stack = stack
        self.when_placed = when_placed
        self.placed = False
        self.error: AbreastError | None = None
        self._depth = 0

    def watch(self) -> None:
        if "keras" in sys.modules:
            self._place()
        else:
            sys.meta_path.insert(0, self)

    def unwatch(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in ("keras", *BACKENDS) and not fullname.startswith("abreast."):
            return None
        spec: importlib.machinery.ModuleSpec | None = found(self, self._execute, fullname, path, target)
        return spec

    def _execute(self, plain: Any, module: ModuleType) -> None:
        self._depth += 1
        try:
            plain(module)
        except AbreastError as error:
            if module.__name__ == "keras":  # no framework for it
                self.error = error
            raise
        finally:
            self._depth -= 1
        if self._depth == 0 and "keras" in sys.modules and not self.placed:
            self.unwatch()
            self._place()

    def _place(self) -> None:
        from abreast import parallel, placed_models  # imports Keras

        self.placed = True
        options = self.options
        try:
            self._check_backend()
            if deterministic.are_chosen():
                current_backend().instruments.use_deterministic_kernels()
            if options.cpu_devices is not None:
                parallel.use_cpu_devices(1 if self.plain else options.cpu_devices)
            if self.plain:
                self.stack.enter_context(placed_models.nothing_placed())
                self._take_over(parallel.num_devices(options.devices, options.cpu_devices))
            else:
                placement = parallel.default_placement(
                    options.devices,
                    batch_norm=options.batch_norm,
                    check_numerics=options.check_numerics,
                    check_rows=options.check_rows,
                    staging=options.staging(),
                    source=options.source,
                )
                self._take_over(self.stack.enter_context(placement).num_devices)
            if self.when_placed is not None:
                self.when_placed()
        except AbreastError as error:
            self.error = error
            raise

    def _take_over(self, num_devices: int) -> None:
        from abreast import keras_distribution  # imports Keras

        self.stack.enter_context(keras_distribution.taken_over())
        self.stack.enter_context(current_backend().taking_over(num_devices))

    def _check_backend(self) -> None:
        running = sys.modules["keras"].backend.backend()
        if self.options.backend not in (None, running):
            message = f"--backend is {self.options.backend}, but the script chose {running}"
            raise BackendError(message, f"leave out --backend, or remove KERAS_BACKEND={running} from the script")


def _show(error: BaseException) -> int:
    """Print an exception of the script as Python would; return Python's exit code."""
    trace = _without_ours(error.__traceback__)
    sys.last_value = error  # as Python does, so that other code sees that the script failed
    if isinstance(error, AbreastError):
        calls = traceback.extract_tb(trace)
        inside = next((i for i, frame in enumerate(calls) if _is_ours(frame.filename)), len(calls))
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(calls[:inside])]
        sys.stderr.write("".join([*lines, *traceback.format_exception_only(error)]))
    else:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "horovod":
            tell(f"trains on several devices without Horovod: {horovod.HINT}")
    if isinstance(error, CheckpointError):  # an error in the request, which a restart would repeat
        return 2
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def _is_ours(filename: str) -> bool:
    return filename.startswith(os.path.dirname(__file__) + os.sep)
