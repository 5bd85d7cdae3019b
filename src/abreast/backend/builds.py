"""The kind of GPU that each installed framework was built for, read from its files: no framework is imported.

Not here: whether a GPU and its driver are there (`device_list.py`).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

from abreast.backend.registry import BackendName
from abreast.provenance import package_versions

# If CUDA is a package of its own, its version is part of the package's name.
_JAX_PLUGINS = {
    **{f"jax-cuda{number}-plugin": f"CUDA {number}" for number in (12, 13)},
    **{f"jax-rocm{number}-plugin": f"ROCm {number}" for number in (60, 7, 8)},
}
_DISTRIBUTIONS: dict[BackendName, tuple[str, ...]] = {
    "jax": ("jax",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tf-nightly", "tf-nightly-cpu"),
    "torch": ("torch",),
}


def distribution_of(name: BackendName) -> tuple[str, str] | None:
    """Name and version of the package that provides a framework, such as `("tensorflow-cpu", "2.21.0")`; None without one."""
    return next(iter(package_versions(*_DISTRIBUTIONS[name]).items()), None)


def gpu_build(name: BackendName) -> str | None:
    """The platform that a framework was built for, such as `CUDA 12.8` or `ROCm 6.3`; None for a CPU-only build."""
    return _GPU_BUILDS[name]()


def _of_jax() -> str | None:
    return next((_JAX_PLUGINS[package] for package in package_versions(*_JAX_PLUGINS)), None)


def _of_tensorflow() -> str | None:
    text = _text_in("tensorflow", "python/platform/build_info.py")
    for kind, words in (("cuda", "CUDA"), ("rocm", "ROCm")):
        if re.search(rf"'is_{kind}_build', True", text):
            version = re.search(rf"'{kind}_version', '([^']+)'", text)
            return words if version is None else f"{words} {version[1]}"
    return None


def _of_torch() -> str | None:
    text = _text_in("torch", "version.py")
    for kind, words in (("cuda", "CUDA"), ("hip", "ROCm")):
        if found := re.search(rf"^{kind}\b.*= *'([^']+)'", text, re.MULTILINE):
            return f"{words} {found[1]}"
    return None


_GPU_BUILDS: dict[BackendName, Callable[[], str | None]] = {
    "jax": _of_jax,
    "tensorflow": _of_tensorflow,
    "torch": _of_torch,
}


def _text_in(package: str, file: str) -> str:
    """The text of a file of a package; empty if there is none."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    paths = (Path(folder) / file for folder in folders)
    return next((path.read_text(errors="replace") for path in paths if path.is_file()), "")
