"""`abreast.ray.trainer`: a trainer of Ray Train whose workers each start a Keras script under `abreast run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from abreast.ray.installed import ray_train
from abreast.ray.script import Script
from abreast.run import RunOptions


def trainer(
    script: str,
    arguments: Sequence[str] = (),
    *,
    scaling_config: Any = None,
    run_config: Any = None,
    module: bool = False,
    **options: Any,
) -> Any:
    """A trainer of Ray Train that runs an unchanged Keras script on every worker; the workers train one model together.

    Each worker starts the script in a process of its own, as `abreast run` does. Place one worker on each host, with all
    its GPUs, or one per GPU. `fit()` returns when the script has ended on all workers.

    Args:
        script: a Python file that every host has, or that Ray ships (`working_dir` of a runtime environment).
        arguments: the arguments of the script.
        scaling_config: a `ray.train.ScalingConfig`.
        run_config: a `ray.train.RunConfig`; `FailureConfig(max_failures=3)` in it starts a failed script again.
        module: whether `script` is the name of a module.
        options: `backend` and the options of `DataParallel`, such as `devices`.

    Returns:
        A `DataParallelTrainer` of Ray Train.

    Raises:
        NotInstalledError: Ray Train is not installed.
        BackendError: the installed Ray is too old.

    Example:
        >>> from ray.train import ScalingConfig  # doctest: +SKIP
        >>> workers = ScalingConfig(num_workers=4, use_gpu=True, resources_per_worker={"GPU": 8})  # doctest: +SKIP
        >>> abreast.ray.trainer("train.py", ["--epochs", "3"], scaling_config=workers).fit()  # doctest: +SKIP
    """
    to_run = Script(script, tuple(map(str, arguments)), RunOptions(**options), module)
    return trainer_of(to_run, {"scaling_config": scaling_config, "run_config": run_config})


def trainer_of(script: Script, configs: Mapping[str, Any], output: Any = None) -> Any:
    """The trainer that runs a `Script`. `output`: an actor that takes rank 0's output."""
    ray_train()
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    from abreast.ray.loop import run_on_worker

    return DataParallelTrainer(run_on_worker, train_loop_config={"script": script, "output": output}, **configs)
