"""`abreast check` without a script: a small model on two devices, compared with one, on each framework that is installed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from abreast import deterministic
from abreast.backend.builds import distribution_of, gpu_build
from abreast.backend.registry import BackendName, title
from abreast.backend.unused_gpus import unused_gpus
from abreast.checking.order import check_script
from abreast.checking.side import SideSpec
from abreast.checking.verdict import Verdict, as_data
from abreast.device_list import Device
from abreast.errors import AbreastError
from abreast.run import RunOptions
from abreast.text_table import text_table

NUM_DEVICES = 2
_SCRIPT = "abreast.checking.small_model"


@dataclass(frozen=True)
class Trial:
    """The verdict of one framework, or the error in its place, and the time that it took."""

    framework: BackendName
    verdict: Verdict | None
    error: AbreastError | None
    seconds: float

    @property
    def exact(self) -> bool:
        return self.verdict is not None and self.verdict.exact


def run_trials(
    side: SideSpec, frameworks: Iterable[tuple[BackendName, RunOptions]], tell: Callable[[str], None]
) -> list[Trial]:
    """Train the small model on each framework, with the options of each and the other settings of `side`."""
    frameworks = list(frameworks)
    if any(options.on_gpus() for _, options in frameworks):
        tell(deterministic.SAID)
    return [_trial(dataclasses.replace(side, options=options), name, tell) for name, options in frameworks]


def _trial(side: SideSpec, framework: BackendName, tell: Callable[[str], None]) -> Trial:
    tell(f"{title(framework)}: training a small model on one device and on {_wanted(side.options)}")
    start = time.perf_counter()
    verdict, error = None, None
    options = dataclasses.replace(side.options, backend=framework)
    try:
        small = dataclasses.replace(side, script=_SCRIPT, module=True, options=options)
        verdict = check_script(small, _say_nothing, shown=False)
    except AbreastError as reason:
        error = reason
    return Trial(framework, verdict, error, time.perf_counter() - start)


def _say_nothing(text: str) -> None:
    pass


def _wanted(options: RunOptions) -> str:
    if options.cpu_devices is not None:
        return f"{options.cpu_devices} simulated devices"
    return f"devices {options.devices}"


def options_of(
    framework: BackendName, asked: RunOptions, accelerators: Sequence[Device], tell: Callable[[str], None]
) -> RunOptions:
    """The devices of a framework's trial: two real ones if the machine has them and the framework can use them."""
    unused = unused_gpus(framework, computes_on_cpu=False)
    if unused is not None:
        tell(str(unused))
    elif len(accelerators) >= NUM_DEVICES and gpu_build(framework) is not None:
        return dataclasses.replace(asked, devices=str(NUM_DEVICES))
    return dataclasses.replace(asked, cpu_devices=NUM_DEVICES)


def report(trials: Sequence[Trial]) -> str:
    """A table with a row per framework, and below it the problems of frameworks that are not equal."""
    heads = ("FRAMEWORK", "VERSION", "DEVICES", "STEPS", "VERDICT", "LARGEST DIFFERENCE", "TIME")
    lines = [text_table([heads, *map(_row, trials)])]
    lines += [f"\n{title(trial.framework)}: {trial.verdict or trial.error}" for trial in trials if not trial.exact]
    return "\n".join(lines)


def _row(trial: Trial) -> tuple[str, ...]:
    package = distribution_of(trial.framework)
    version = "-" if package is None else package[1]
    seconds = f"{trial.seconds:.1f} s"
    verdict = trial.verdict
    if verdict is None:
        return title(trial.framework), version, "-", "-", "failed", "-", seconds
    most = verdict.largest_as_written or verdict.largest
    largest = f"{most.difference:.1e}" if verdict.exact else "-"
    return (
        title(trial.framework),
        version,
        verdict.devices_text,
        str(verdict.num_steps),
        verdict.outcome,
        largest,
        seconds,
    )


def trials_as_data(trials: Iterable[Trial]) -> dict[str, Any]:
    """The trials as data for JSON: by framework, the verdict as for a script, or `error`, and the seconds."""
    return {
        trial.framework: (
            {"outcome": "failed", "error": str(trial.error)} if trial.verdict is None else as_data(trial.verdict)
        )
        | {"seconds": round(trial.seconds, 3)}
        for trial in trials
    }
