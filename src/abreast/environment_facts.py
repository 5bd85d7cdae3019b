"""The facts that a bug report needs: versions, frameworks, driver, devices, launcher, variables, cores and memory.

Imports and starts no framework. A fact that is unavailable becomes a note instead of an error. `env_command.py` prints them. Not
here: the speeds of this machine's links (`machine/`).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from abreast import __version__, provenance
from abreast.backend.builds import distribution_of, gpu_build
from abreast.backend.registry import BACKENDS
from abreast.backend_choice import backend_choice, configuration_file
from abreast.cpu import cpu_memory_bytes, cpu_model, free_memory_bytes, num_cores
from abreast.device_list import list_devices
from abreast.errors import AbreastError
from abreast.launchers import read_world
from abreast.system_files import text_of

_PACKAGES = (
    *("keras", "keras-nightly", "numpy", "jaxlib", "nvidia-ml-py", "cloudpickle"),
    *("opencv-python-headless", "pillow", "simplejpeg", "pyarrow", "nvidia-dali-cuda120"),
    *(f"nvidia-{part}-cu{number}" for part in ("cudnn", "nccl") for number in (12, 13)),
)
# Variables that change the behaviour of a framework or a launcher.
_PREFIXES = (
    *("ABREAST_", "KERAS_", "JAX_", "XLA_", "TF_", "TORCH_", "PYTORCH_", "CUDA_", "NVIDIA_", "NCCL_", "GLOO_"),
    *("HIP_", "ROCR_", "OMP_", "MKL_", "OMPI_COMM_", "SLURM_", "SLURMD_", "MASTER_", "PJRT_"),
    *("PET_", "TORCHELASTIC_", "PMIX_", "PMI_", "MPI_LOCAL", "RAY_", "SKYPILOT_", "AWS_BATCH_"),
)
_NAMES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NPROC",
    "NODE_RANK",
    "GROUP_RANK",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_local_daemon_uri",
    "I_MPI_HYDRA_UUID",
    "JOB_COMPLETION_INDEX",
    "HOROVOD_SIZE",
    "CLUSTER_SPEC",
    "SM_HOSTS",
    "SM_CURRENT_HOST",
    "SM_NUM_GPUS",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
)
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL")
_HIDDEN = "(hidden)"
_FOLDER = Path(__file__).parent


def environment_facts(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> dict[str, Any]:
    """All facts, as data for JSON; sizes are in bytes. A string in place of an object is the reason why a fact is missing."""
    environ = os.environ if environ is None else environ
    return {
        "date": provenance.now(),
        "abreast": _abreast(),
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
        },
        "system": _system(root),
        "packages": provenance.package_versions(*_PACKAGES),
        "keras_configuration": _keras_configuration(environ),
        "keras_backend": _keras_backend(),
        "frameworks": {name: _framework(name) for name in BACKENDS},
        "driver": _driver(),
        "devices": _devices(environ, root),
        "launcher": _launcher(environ),
        "variables": _variables(environ),
        "cores": {"model": cpu_model(root), "usable": num_cores(), "all": os.cpu_count()},
        "memory": {"bytes": cpu_memory_bytes(root), "free_bytes": free_memory_bytes(root)},
        "shm": _shared_memory(root),
    }


def _abreast() -> dict[str, Any]:
    clone = _FOLDER.parents[1]
    commit = provenance.commit(clone, "src") if (clone / ".git").exists() else None
    return {"version": __version__, "folder": str(_FOLDER), **({} if commit is None else {"commit": commit})}


def _system(root: Path) -> dict[str, Any]:
    names = dict(line.partition("=")[::2] for line in text_of(root / "etc/os-release").splitlines())
    return {
        "name": names.get("PRETTY_NAME", platform.system()).strip('"'),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
    }


def _keras_configuration(environ: Mapping[str, str]) -> Any:
    """The backend in Keras's own file, which Keras uses if `KERAS_BACKEND` is not set; None without the file."""
    file = Path(configuration_file(environ))
    if not file.is_file():
        return None
    try:
        return {"file": str(file), "backend": json.loads(file.read_text()).get("backend")}
    except (OSError, ValueError, AttributeError) as error:
        return f"{file} cannot be read: {error}"


def _keras_backend() -> Any:
    """The framework that Keras uses in this environment, with a line if Keras alone would use another one."""
    try:
        chosen, why = backend_choice()
    except AbreastError as error:
        return error.message
    return {"name": chosen, "why": why}


def _framework(name: Any) -> dict[str, Any] | None:
    """Package, version, and GPU platform of a framework; None if it is not installed."""
    found = distribution_of(name)
    return None if found is None else {"package": found[0], "version": found[1], "built_for": gpu_build(name)}


def _driver() -> Any:
    """NVIDIA's driver, the newest CUDA version that it supports, and the number of cards, including hidden ones."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"no driver of NVIDIA: {error}"
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return {
            "version": pynvml.nvmlSystemGetDriverVersion(),
            "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
            "cards": pynvml.nvmlDeviceGetCount(),
        }
    except pynvml.NVMLError as error:
        return f"NVIDIA's driver does not answer: {error}"
    finally:
        pynvml.nvmlShutdown()


def _devices(environ: Mapping[str, str], root: Path) -> Any:
    try:
        return [asdict(device) for device in list_devices(environ, root)]
    except AbreastError as error:
        return error.message


def _launcher(environ: Mapping[str, str]) -> Any:
    try:
        return asdict(read_world(environ))
    except AbreastError as error:
        return error.message


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    names = sorted(name for name in environ if name in _NAMES or name.startswith(_PREFIXES))
    return {name: _HIDDEN if any(part in name for part in _SECRETS) else environ[name] for name in names}


def _shared_memory(root: Path) -> dict[str, int] | None:
    """The size of `/dev/shm`, through which processes of PyTorch exchange arrays; containers often have 64 MiB of it."""
    try:
        usage = shutil.disk_usage(root / "dev/shm")
    except OSError:
        return None
    return {"bytes": usage.total, "free_bytes": usage.free}
