"""Kernels of GPUs that add in the same order in each run: the variables with which each framework chooses them.

PyTorch has no such variable and reads ours (`Instruments.use_deterministic_kernels`). Kernels of CPUs repeat already.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from abreast.device_list import list_devices
from abreast.device_request import DeviceSpec, parse_devices

SAID = (
    "the runs use deterministic kernels, which may be slower: two runs on a GPU otherwise add in different orders, "
    "and differ by roundings"
)
NO_FORM = "GPU kernels without a deterministic form"

_OURS = "ABREAST_DETERMINISTIC_KERNELS"
# TensorFlow reads its variable where `enable_op_determinism` is not called. cuBLAS needs its own from CUDA 10.2 on.
_CHOSEN = {_OURS: "1", "TF_DETERMINISTIC_OPS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
# It includes `xla_gpu_exclude_nondeterministic_ops`, and switches off autotuning, which may choose another kernel in each run.
_XLA_FLAG = "--xla_gpu_deterministic_ops"


def on_gpus(devices: DeviceSpec, cpu_devices: int | None) -> bool:
    """Whether a request for devices selects GPUs of this machine."""
    if cpu_devices is not None or _names_cpu(devices):
        return False
    return any(device.kind == "gpu" for device in list_devices())


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables, and those that choose deterministic kernels. What the user has set stays."""
    return {**_CHOSEN, **environ, "XLA_FLAGS": _with_flag(environ.get("XLA_FLAGS", "").strip())}


def are_chosen() -> bool:
    """Whether this process has the variables of `environment`."""
    return os.environ.get(_OURS) == "1"


def _names_cpu(devices: DeviceSpec) -> bool:
    request = parse_devices(devices)
    names = request if isinstance(request, tuple) else (request,)
    return any(str(name).startswith("cpu") for name in names)


def _with_flag(flags: str) -> str:
    is_file = flags and not flags.startswith("-")
    return flags if is_file or _XLA_FLAG in flags else f"{flags} {_XLA_FLAG}=true".strip()
