"""`abreast run --ray`: the driver, which asks Ray for the hosts, shows rank 0's output and returns the script's exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

from abreast.errors import WorkerError
from abreast.ray.cluster import Request, Waiting, completed, connected
from abreast.ray.failure import ScriptFailed, translated
from abreast.ray.output import Output
from abreast.ray.script import Script
from abreast.ray.trainer import trainer_of
from abreast.stderr import fail, tell

_LOOK_SECONDS = 0.25


def run_on_ray(script: Script, request: Request) -> int:
    """Run a script on hosts of Ray; returns its exit code.

    Raises `AbreastError` if it cannot start. Ctrl-C, or any other end of this function, ends everything on all hosts.
    """
    with connected(request.hosts) as is_new, _settings(), _storage() as storage:
        signal.signal(signal.SIGTERM, _end)  # in place of Ray's
        request = completed(request)
        if not script.quiet:
            tell(f"asking Ray for {request}, to run {script.target} on each")
        waiting = Waiting(request, can_grow=not is_new)
        waiting.look()
        output = _beside_this(Output)
        fit = _Fit(trainer_of(script, _configs(request, storage), output))
        fit.start()
        _show(output, fit, waiting)
    if fit.error is None:
        return 0
    error = translated(fit.error)
    if not isinstance(error, WorkerError):
        raise error
    fail(error)
    return error.exit_code if isinstance(error, ScriptFailed) else 1


def _end(number: int, frame: object) -> NoReturn:
    """As Ctrl-C does: `ray job stop` sends SIGTERM."""
    sys.exit(128 + number)


def _configs(request: Request, storage: str) -> dict[str, Any]:
    from ray.train import RunConfig, ScalingConfig

    scaling = ScalingConfig(
        num_workers=request.hosts,
        use_gpu=bool(request.gpus_per_host),
        resources_per_worker=request.resources(),
        placement_strategy="STRICT_SPREAD",
    )
    return {"scaling_config": scaling, "run_config": RunConfig(name="abreast", storage_path=storage)}


class _Fit(threading.Thread):
    """`fit()` of a trainer, beside the main thread, which gets Ctrl-C."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(name="abreast-ray-fit", daemon=True)
        self._trainer = trainer
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._trainer.fit()
        except Exception as error:
            self.error = error


def _show(output: Any, fit: _Fit, waiting: Waiting) -> None:
    """Print rank 0's output until the run has ended. Raises `LaunchError` if the workers do not begin in time."""
    import ray

    has_begun = False
    while True:
        is_last = not fit.is_alive()
        for name, data in ray.get(output.read.remote(0 if is_last else _LOOK_SECONDS)):
            if name == "begin":
                has_begun = True
            else:
                stream = sys.stdout if name == "stdout" else sys.stderr
                stream.flush()
                stream.buffer.write(data)
                stream.flush()
        if is_last:
            return
        if not has_begun:
            waiting.look()


def _beside_this(actor: type) -> Any:
    """An actor on the host of this process."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(actor).remote()


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Ray Train's settings, where the user has not chosen them: workers stay in the folder that Ray ships; ends show soon."""
    ours = {"RAY_CHDIR_TO_TRIAL_DIR": "0", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5"}
    added = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _storage() -> Iterator[str]:
    """A folder for what Ray Train writes about a run; else it fills `~/ray_results`."""
    folder = tempfile.mkdtemp(prefix="abreast-ray-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
