"""The one list of frameworks, and the backend of each. All other code reads their names here.

Importing this loads neither Keras nor a framework. Not here: the methods of a backend (`contract.py`, `instruments.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, Literal, get_args

from abreast.device_list import list_nvidia_devices
from abreast.errors import BackendError, NotInstalledError
from abreast.installing import install_command

if TYPE_CHECKING:
    from abreast.backend.contract import Backend
    from abreast.backend.fake import FakeBackend
    from abreast.backend.instruments import Instruments
    from abreast.backend.jax.backend import JaxBackend
    from abreast.backend.tensorflow.backend import TensorFlowBackend
    from abreast.backend.torch.backend import TorchBackend

    def _compare(backend: Backend[Any], instruments: Instruments[Any, Any]) -> None: ...

    # A type checker compares each class with both protocols here.
    _compare(JaxBackend(), JaxBackend().instruments)
    _compare(TensorFlowBackend(), TensorFlowBackend().instruments)
    _compare(TorchBackend(), TorchBackend().instruments)
    _compare(FakeBackend(), FakeBackend().instruments)

BackendName = Literal["jax", "tensorflow", "torch"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
TITLES: dict[BackendName, str] = {"jax": "JAX", "tensorflow": "TensorFlow", "torch": "PyTorch"}
# The extras of abreast with a build for NVIDIA's GPUs. PyTorch's build on PyPI is such a build.
CUDA_EXTRAS: dict[BackendName, str] = {"jax": "jax-cuda", "tensorflow": "tensorflow-cuda", "torch": "torch"}
# One compiled program drives all devices, so layers and losses see the rows of all of them.
SEE_ALL_ROWS: frozenset[str] = frozenset({"jax"})
# On several devices, Keras trains by itself there. Keras 3.16 will do so on PyTorch.
KERAS_HAS_A_WAY: tuple[BackendName, ...] = ("jax", "tensorflow")


def current_backend() -> Backend[Any]:
    """The backend that Keras was imported with; raises `BackendError` for an unknown one."""
    import keras

    name = keras.backend.backend()
    if name not in BACKENDS:
        raise BackendError(
            f"Keras runs on {name!r}, which cannot train on several devices",
            f"set KERAS_BACKEND to {_either(BACKENDS)} before keras is imported",
        )
    backend: Backend[Any] = importlib.import_module(f"abreast.backend.{name}.backend").BACKEND
    return backend


def title(name: str) -> str:
    """A framework's name for a sentence, such as `PyTorch`; an unknown name unchanged."""
    return next((TITLES[known] for known in BACKENDS if known == name), name)


def installed() -> tuple[BackendName, ...]:
    """The installed frameworks, found without importing them."""
    return tuple(name for name in BACKENDS if _is_installed(name))


def require(backend: str, chooses: str = "--backend ") -> None:
    """Raise `NotInstalledError` unless the framework is installed; does not import it.

    `chooses`: the words before a framework's name that choose it.
    """
    if not _is_installed(backend):
        others = ", ".join(f"{chooses}{name}" for name in installed())
        command = _install_command(backend)
        hint = f"{command}, or choose one that is: {others}" if others else command
        raise NotInstalledError(f"{backend} is not installed", hint)


def _is_installed(name: str) -> bool:
    """Whether a module is installed. A folder without `__init__.py`, as an uninstallation may leave, does not count."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a stand-in in `sys.modules`, as tests put there
        return False
    return spec is not None and spec.origin is not None


def no_backend() -> NotInstalledError:
    """The error for an environment without a framework."""
    return NotInstalledError(f"none of {_either(BACKENDS)} is installed", _install_command(BACKENDS[0]))


def _install_command(backend: str) -> str:
    """The command for a build that uses the GPUs of this machine, if it has any."""
    cuda = next((extra for name, extra in CUDA_EXTRAS.items() if name == backend), backend)
    return install_command(cuda if list_nvidia_devices() else backend)


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
