"""`abreast run --ray`: the driver requests hosts from Ray, shows rank 0's output and returns the script's exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from abreast.errors import AbreastError, WorkerError
from abreast.ray.cluster import Request, Waiting, completed, connected
from abreast.ray.failure import ScriptFailed, translated
from abreast.ray.output import Output
from abreast.ray.script import Script
from abreast.ray.trainer import trainer_of
from abreast.stderr import fail, tell

_LOOK_SECONDS = 0.25
# Settings of Ray Train, unless the user set them: workers stay in the folder that Ray ships, and it soon notices a worker's end.
_SETTINGS = {"RAY_CHDIR_TO_TRIAL_DIR": "0", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5"}


def run_on_ray(script: Script, request: Request) -> int:
    """Run a script on hosts of Ray; returns its exit code.

    Raises `AbreastError` if it cannot start. Ctrl-C, or any other end of this function, ends everything on all hosts.
    """
    with connected(request.hosts) as is_new, _storage() as storage:
        signal.signal(signal.SIGTERM, _end)  # replaces Ray's handler
        request = completed(request)
        if not script.quiet:
            tell(f"asking Ray for {request}, to run {script.target} on each")
        waiting = Waiting(request, can_grow=not is_new)
        waiting.look()
        output = _beside_this(Output)
        fit = _beside_this(_Fit, {**_SETTINGS, **{n: os.environ[n] for n in _SETTINGS if n in os.environ}})
        error = _follow(fit.run.remote(script, request, storage, output), output, waiting)
    if error is None:
        return 0
    if not isinstance(error, WorkerError):
        raise error
    fail(error)
    return error.exit_code if isinstance(error, ScriptFailed) else 1


def _end(number: int, frame: object) -> NoReturn:
    """End the driver as Ctrl-C would, because `ray job stop` sends SIGTERM."""
    sys.exit(128 + number)


class _Fit:
    """An actor that calls `fit`. A thread of the driver could not be ended: Ray ends a process too late if threads use it."""

    def run(self, script: Script, request: Request, storage: str, output: Any) -> AbreastError | None:
        from ray.train import RunConfig, ScalingConfig

        scaling = ScalingConfig(
            num_workers=request.hosts,
            use_gpu=bool(request.gpus_per_host),
            resources_per_worker=request.resources(),
            placement_strategy="STRICT_SPREAD",
        )
        configs = {"scaling_config": scaling, "run_config": RunConfig(name="abreast", storage_path=storage)}
        try:
            trainer_of(script, configs, output).fit()
        except Exception as error:
            return translated(error)
        return None


def _follow(fit: Any, output: Any, waiting: Waiting) -> AbreastError | None:
    """Print rank 0's output until the run ends; returns its error, or None. Raises `LaunchError` if workers begin too late."""
    import ray

    has_begun = False
    while True:
        is_last = bool(ray.wait([fit], timeout=0)[0])
        for name, data in ray.get(output.read.remote(0 if is_last else _LOOK_SECONDS)):
            if name == "begin":
                has_begun = True
            else:
                _print(sys.stdout if name == "stdout" else sys.stderr, data)
        if is_last:
            return _result(fit)
        if not has_begun:
            waiting.look()


def _print(stream: Any, data: bytes) -> None:
    stream.flush()
    stream.buffer.write(data)
    stream.flush()


def _result(fit: Any) -> AbreastError | None:
    import ray

    try:
        error: AbreastError | None = ray.get(fit)
    except ray.exceptions.RayError as error_of_ray:
        return translated(error_of_ray)
    return error


def _beside_this(actor: type, variables: Mapping[str, str] | None = None) -> Any:
    """An actor on the host of this process."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    runtime_env = {"env_vars": dict(variables or {})}
    return ray.remote(num_cpus=0, scheduling_strategy=here, runtime_env=runtime_env)(actor).remote()


@contextlib.contextmanager
def _storage() -> Iterator[str]:
    """A temporary folder for Ray Train's files about a run, which would otherwise fill `~/ray_results`."""
    folder = tempfile.mkdtemp(prefix="abreast-ray-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
