"""The environment variables by which each framework uses deterministic kernels: these add in the same order in each run.

PyTorch has no such variable: abreast reads its own, and calls PyTorch (`Instruments.use_deterministic_kernels`). On CPUs, no
variable is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from abreast.device_list import list_devices
from abreast.device_request import DeviceSpec, parse_devices

SAID = (
    "the runs are to use deterministic kernels of GPUs, which may be slower: otherwise two runs add in different orders, "
    "and differ by roundings"
)
NO_FORM = "GPU kernels without a deterministic form"

_OURS = "ABREAST_DETERMINISTIC_KERNELS"
# TensorFlow reads its variable where `enable_op_determinism` is not called. cuBLAS needs its own from CUDA 10.2 on.
_CHOSEN = {_OURS: "1", "TF_DETERMINISTIC_OPS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
# A value that turns the kernels off again, for a framework that refuses what has no deterministic form. PyTorch only warns.
_OFF = {"jax": "XLA_FLAGS=--xla_gpu_deterministic_ops=false", "tensorflow": "TF_DETERMINISTIC_OPS=0"}
# It includes `xla_gpu_exclude_nondeterministic_ops`, and switches off autotuning, which may choose another kernel in each run.
_XLA_FLAG = "--xla_gpu_deterministic_ops"
_ON = ("1", "true")


def on_gpus(devices: DeviceSpec, cpu_devices: int | None) -> bool:
    """Whether a request for devices selects GPUs of this machine. The framework may see none of them: see `are_used`."""
    if cpu_devices is not None or _names_cpu(devices):
        return False
    return any(device.kind == "gpu" for device in list_devices())


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with the variables for deterministic kernels added. A variable that is already there keeps its value."""
    return {**_CHOSEN, **environ, "XLA_FLAGS": _with_flag(environ.get("XLA_FLAGS", "").strip())}


def are_chosen() -> bool:
    """Whether abreast started this process with the variables of `environment`."""
    return os.environ.get(_OURS) == "1"


def are_used(backend: str, devices: Iterable[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `backend` runs deterministic kernels on `devices`: one is a GPU, and its variable in `environ` asks for them."""
    return any(name.startswith("gpu") for name in devices) and _asks(backend, environ)


def way_out(backend: str) -> str | None:
    """The remedy if deterministic kernels refuse an operation; None if the framework refuses none."""
    off = _OFF.get(backend)
    return None if off is None else f"set {off}, or give --cpu-devices 2"


def _asks(backend: str, environ: Mapping[str, str]) -> bool:
    if backend == "jax":
        return _flag_is_on(environ.get("XLA_FLAGS", "").strip())
    name = "TF_DETERMINISTIC_OPS" if backend == "tensorflow" else _OURS
    return environ.get(name, "").lower() in _ON


def _flag_is_on(flags: str) -> bool:
    """Whether XLA's flags ask for deterministic kernels. The last of several values counts."""
    if not flags.startswith("-"):  # the name of a file
        return False
    pairs = [flag.partition("=") for flag in flags.split()]
    values = [value if sign else "true" for name, sign, value in pairs if name == _XLA_FLAG]
    return bool(values) and values[-1].lower() in _ON


def _names_cpu(devices: DeviceSpec) -> bool:
    request = parse_devices(devices)
    names = request if isinstance(request, tuple) else (request,)
    return any(str(name).startswith("cpu") for name in names)


def _with_flag(flags: str) -> str:
    is_file = flags and not flags.startswith("-")
    return flags if is_file or _XLA_FLAG in flags else f"{flags} {_XLA_FLAG}=true".strip()
