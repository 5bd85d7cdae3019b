"""Settings of Keras, PyTorch, NumPy and Python that scripts may change at any time, and that the steps of every rank read.

Not here: the number of threads and the default device, which differ between ranks.
"""

from __future__ import annotations

import decimal
import operator
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import torch

from abreast.keras_private.dtypes import BIT64_TO_BIT32_DTYPE

_Access = tuple[Callable[[], Any], Callable[[Any], Any]]


def read() -> dict[str, Any]:
    """Each setting by name, except settings that this PyTorch lacks, or cannot read after a newer setting was used."""
    try:
        return {name: get() for name, get in _GETTERS}
    except (AttributeError, RuntimeError):
        return _those_that_can_be_read()


def _those_that_can_be_read() -> dict[str, Any]:
    found = {}
    for name, get in _GETTERS:
        with suppress(AttributeError, RuntimeError):
            found[name] = get()
    return found


def write(settings: dict[str, Any]) -> None:
    """Apply the settings that `read` returned in another process."""
    there = read()
    for name, (get, put) in _ACCESS.items():
        # Older settings come first. They change newer ones, which are compared, and set if they differ, after them.
        if name in settings and (name not in there or get() != settings[name]):
            put(settings[name])


class _Environ:
    """Environment variables that were set or removed since this object was made; workers start with all others."""

    def __init__(self) -> None:
        self._before = dict(os.environ)
        self._names: set[str] = set()
        self._bytes: dict[Any, Any] = {}
        self._changes: dict[str, str | None] = {}

    def get(self) -> dict[str, str | None]:
        """`{name: value}`, None for a removed variable; includes variables that have their first value again."""
        data: Any = vars(os.environ)["_data"]  # raw bytes: reading `os.environ` itself decodes every name
        if data != self._bytes:
            self._bytes = dict(data)
            now = dict(os.environ)
            self._names |= {name for name in {*now, *self._before} if now.get(name) != self._before.get(name)}
            self._changes = {name: now.get(name) for name in sorted(self._names)}
        return self._changes

    def put(self, changes: dict[str, str | None]) -> None:
        for name, value in changes.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Path:
    """The folders of modules, which a notebook may add to. They are absolute: the script may change its folder."""

    def __init__(self) -> None:
        self._here: list[str] = []
        self._folders = [*sys.path]

    def get(self) -> list[str]:
        with suppress(FileNotFoundError):  # the working directory was deleted
            here = [os.getcwd(), *sys.path]
            if here != self._here:
                self._here, self._folders = here, [*map(os.path.abspath, sys.path)]
        return self._folders

    def put(self, folders: list[str]) -> None:
        sys.path[:] = folders


def _folder() -> str:
    with suppress(FileNotFoundError):  # it was deleted
        return os.getcwd()
    return ""


def _go_to(folder: str) -> None:
    if folder:
        os.chdir(folder)


def _decimal() -> tuple[Any, ...]:
    """The arguments of a context like that of this thread, without its flags, which results set."""
    *first, _, traps = decimal.getcontext().__reduce__()[1]
    return (*first, [], traps)


def _numpys_texts() -> dict[str, Any]:
    """The options by which NumPy makes texts of arrays, without functions, which cannot be sent."""
    return {**np.get_printoptions(), "formatter": None}


def _torchs_texts() -> dict[str, Any]:
    """The options by which PyTorch makes texts of tensors."""
    return dict(vars(torch._tensor_str.PRINT_OPTS))


def _flash_attention(on: bool | None) -> None:
    if on is not None:
        keras.config.enable_flash_attention() if on else keras.config.disable_flash_attention()


def _flag(path: str) -> _Access:
    owner_path, _, name = path.rpartition(".")
    try:
        owner = operator.attrgetter(owner_path)(torch)
    except AttributeError:  # this PyTorch lacks it
        owner = None
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _attention_kernel(name: str) -> _Access:
    cuda: Any = torch.backends.cuda
    return lambda: getattr(cuda, f"{name}_sdp_enabled")(), lambda on: getattr(cuda, f"enable_{name}_sdp")(on)


def _autocast(kind: str) -> dict[str, _Access]:
    return {
        f"autocast on {kind}": (
            lambda: torch.is_autocast_enabled(kind),
            lambda on: torch.set_autocast_enabled(kind, on),
        ),
        f"autocast's type on {kind}": (
            lambda: torch.get_autocast_dtype(kind),
            lambda dtype: torch.set_autocast_dtype(kind, dtype),
        ),
    }


_config: Any = keras.config
_environ, _path = _Environ(), _Path()
_ACCESS: dict[str, _Access] = {
    "environ": (_environ.get, _environ.put),
    "path": (_path.get, _path.put),
    "folder": (_folder, _go_to),  # a layer may open a file by a relative path
    "arguments": (lambda: [*sys.argv], lambda arguments: operator.setitem(sys.argv, slice(None), arguments)),
    "recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
    "decimal": (_decimal, lambda arguments: decimal.setcontext(decimal.Context(*arguments))),
    "errors of NumPy": (np.geterr, lambda kinds: np.seterr(**kinds)),
    "NumPy's texts": (_numpys_texts, lambda options: np.set_printoptions(**options)),
    "PyTorch's texts": (_torchs_texts, lambda options: torch.set_printoptions(**options)),
    "floatx": (_config.floatx, _config.set_floatx),
    "wide_results": (BIT64_TO_BIT32_DTYPE.copy, BIT64_TO_BIT32_DTYPE.update),
    "epsilon": (_config.epsilon, _config.set_epsilon),
    "image_data_format": (_config.image_data_format, _config.set_image_data_format),
    "dtype_policy": (_config.dtype_policy, _config.set_dtype_policy),
    "Keras's flash attention": (_config.is_flash_attention_enabled, _flash_attention),
    "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "deterministic": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "anomalies": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    **_autocast("cpu"),
    **_autocast("cuda"),
    "float32_matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    **{
        path: _flag(path)
        for path in (
            "utils.deterministic.fill_uninitialized_memory",
            "backends.mkldnn.enabled",
            "backends.cudnn.enabled",
            "backends.cudnn.benchmark",
            "backends.cudnn.deterministic",
            "backends.cudnn.allow_tf32",
            "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
            "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
            # In this order: a wider setting changes narrower ones.
            "backends.fp32_precision",
            "backends.cudnn.fp32_precision",
            "backends.mkldnn.fp32_precision",
            "backends.cuda.matmul.fp32_precision",
            "backends.cudnn.conv.fp32_precision",
            "backends.cudnn.rnn.fp32_precision",
            "backends.mkldnn.matmul.fp32_precision",
            "backends.mkldnn.conv.fp32_precision",
            "backends.mkldnn.rnn.fp32_precision",
        )
    },
    **{f"attention by {name}": _attention_kernel(name) for name in ("flash", "mem_efficient", "math", "cudnn")},
}
_GETTERS = [(name, get) for name, (get, _) in _ACCESS.items()]
