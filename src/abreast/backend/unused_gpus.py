"""NVIDIA GPUs that the driver sees and a framework cannot use, with the reason and a command that helps. Imports no framework.

Not here: the devices that a framework does use (`Backend.device_names`).
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from abreast.backend.builds import distribution_of, gpu_build
from abreast.backend.registry import BACKENDS, CUDA_EXTRAS, TITLES, BackendName
from abreast.device_list import list_nvidia_devices
from abreast.installing import install_command
from abreast.provenance import package_versions
from abreast.units import counted

# Packages of CPU builds, which would stay beside the extra's build. PyTorch's has the same name as its CUDA build.
_IN_THE_WAY = ("tensorflow-cpu", "tf-nightly-cpu", "torch")


@dataclass(frozen=True)
class UnusedGpus:
    """A finding, with `message` and `hint` like an error's."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"


def unused_gpus(framework: str, *, computes_on_cpu: bool) -> UnusedGpus | None:
    """The GPUs of this machine that a framework cannot use; None if there are none, or if it may use them.

    With `computes_on_cpu` false (also if unknown), only a build that cannot use GPUs is reported.
    """
    name = next((known for known in BACKENDS if known == framework), None)
    gpus = () if name is None or _are_hidden(name) else list_nvidia_devices()
    if name is None or not gpus:
        return None
    why = _shortcoming(name)
    if why is None and computes_on_cpu:
        why = f"it is built for {gpu_build(name)} and finds no device; the driver may be older than this CUDA"
    if why is None:
        return None
    models = ", ".join(sorted({gpu.model for gpu in gpus}))
    what = f"{TITLES[name]} cannot use {counted(len(gpus), 'GPU')} of this machine ({models}): {why}"
    return UnusedGpus(what, _remedy(name))


def _are_hidden(name: BackendName) -> bool:
    """Whether the user lets JAX use other platforms only."""
    platforms = os.environ.get("JAX_PLATFORMS", "") if name == "jax" else ""
    return bool(platforms) and not {"cuda", "gpu"} & set(platforms.split(","))


def _shortcoming(name: BackendName) -> str | None:
    if not (gpu_build(name) or "").startswith("CUDA"):
        return "its build has no CUDA"
    # The other frameworks install CUDA's libraries with their CUDA build.
    if name == "tensorflow" and not package_versions("nvidia-cudnn-cu12") and not _can_load("libcudnn.so.9"):
        return "CUDA's libraries, which its build loads, are not installed"
    return None


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _remedy(name: BackendName) -> str:
    """Commands that install a build with CUDA, or the newest version if there is one already."""
    package, _ = distribution_of(name) or (name, "")
    uninstall = f"pip uninstall --yes {package} && " if package in _IN_THE_WAY else ""
    return (
        f"{uninstall}{install_command(CUDA_EXTRAS[name])}; the README's table of extras names the driver that it needs"
    )
