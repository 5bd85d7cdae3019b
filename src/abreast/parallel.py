"""`DataParallel` and `parallelize`: the choice of devices on which models train.

Not here: which model has which placement (`placed_models.py`), and how Keras's own `fit` gets there (`keras_fit.py`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import keras

from abreast import keras_fit, notebook
from abreast.backend import current_backend
from abreast.backend.contract import Backend, BatchNorm, Placement
from abreast.backend.unused_gpus import unused_gpus
from abreast.device_request import DeviceSpec, choose, parse_devices
from abreast.errors import BackendError, DeviceError, ModelError
from abreast.launchers import read_world
from abreast.placed_models import as_default, is_nothing_placed, placed_before, scopes, tag, untag
from abreast.staging import DEFAULT_STAGING, Staging
from abreast.stderr import tell

Model = TypeVar("Model")

_installing = threading.Lock()
_NO_ACCELERATOR = (
    'devices="auto" found no accelerator: models train on cpu:0 alone\n'
    "hint: `abreast run --cpu-devices N`, or abreast.use_cpu_devices(N), simulates several devices on the CPU"
)
_simulates = False  # whether the user asked for devices on the CPU


class DataParallel:
    """Train every model made or compiled inside the `with` block on all of `devices`.

    `devices`: `"auto"` (every accelerator), a number, indices or names. `batch_norm`: `"global"` uses the statistics of the
    whole batch, as one device would; `"local"` uses those of each device's rows. `check_numerics` raises `NumericsError` when
    the loss is not finite. `check_rows` searches, on the first batch, for layers that relate its rows to one another; needed
    where a device sees only its own rows (TensorFlow, PyTorch). `prefetch` batches wait on the devices while a step runs, or as
    many as fit into `prefetch_bytes` (by default an eighth of the free memory); 0 feeds in the training thread. None means 2, or
    0 for a source that could see changes by callbacks or steps. A step that waits `input_timeout` seconds for its batch ends
    `fit`. Raises `DeviceError`, `BackendError`.
    """

    def __init__(
        self,
        devices: DeviceSpec = "auto",
        *,
        batch_norm: BatchNorm = "global",
        check_numerics: bool = False,
        check_rows: bool = True,
        prefetch: int | None = None,
        prefetch_bytes: int | None = None,
        input_timeout: float | None = None,
    ) -> None:
        staging = Staging(prefetch, prefetch_bytes, input_timeout)
        self.placement = _placement(devices, batch_norm, check_numerics, check_rows, staging)

    @property
    def devices(self) -> tuple[str, ...]:
        return self.placement.devices

    def __enter__(self) -> DataParallel:
        scopes().append(self.placement)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        scopes().pop()

    def __repr__(self) -> str:
        names, placement = ", ".join(self.devices), self.placement
        return f'<DataParallel on {names}: {placement.backend.name}, batch_norm="{placement.batch_norm}">'

    def _repr_html_(self) -> str:
        placement = self.placement
        facts = {
            "backend": placement.backend.name,
            "devices": ", ".join(self.devices),
            "batch_norm": placement.batch_norm,
            "check_numerics": placement.check_numerics,
            "check_rows": placement.check_rows,
        }
        return notebook.shown("DataParallel", facts)

    def close(self) -> None:
        """End the worker processes and free their memory; a later `fit` starts them again."""
        self.placement.backend.close(self.placement)


def parallelize(
    model: Model,
    devices: DeviceSpec = "auto",
    *,
    batch_norm: BatchNorm = "global",
    check_numerics: bool = False,
    check_rows: bool = True,
    prefetch: int | None = None,
    prefetch_bytes: int | None = None,
    input_timeout: float | None = None,
) -> Model:
    """Let an existing model (built, compiled, trained, or not yet) train on all of `devices`; returns the same object.

    The arguments are those of `DataParallel`.
    """
    if not isinstance(model, keras.Model):
        raise ModelError(
            f"parallelize needs a keras.Model, not a {type(model).__name__}", "wrap layers in keras.Sequential"
        )
    staging = Staging(prefetch, prefetch_bytes, input_timeout)
    tag(model, _placement(devices, batch_norm, check_numerics, check_rows, staging))
    return model


def use_cpu_devices(count: int) -> None:
    """Simulate `count` devices on the CPU, for trials without a GPU. Call it before anything is computed."""
    if count < 1:
        raise BackendError(f"{count} simulated CPU devices", "ask for at least 1")
    global _simulates
    _simulates = True
    current_backend().use_cpu_devices(count)


def devices() -> tuple[str, ...]:
    """Names of the devices that the current backend can train on, such as `("gpu:0", "gpu:1")`."""
    return current_backend().device_names()


def num_devices(devices: DeviceSpec, cpu_devices: int | None) -> int:
    """Number of the devices that a request means, of `cpu_devices` simulated ones or of those that are there."""
    there = current_backend().device_names() if cpu_devices is None else [f"cpu:{i}" for i in range(cpu_devices)]
    return len(choose(devices, there))


@contextmanager
def default_placement(
    devices: DeviceSpec = "auto",
    *,
    batch_norm: BatchNorm = "global",
    check_numerics: bool = False,
    check_rows: bool = True,
    staging: Staging = DEFAULT_STAGING,
) -> Iterator[Placement]:
    """Inside, place every model of the process that is in no scope of its own. `abreast run` does this for a whole script."""
    placement = _placement(devices, batch_norm, check_numerics, check_rows, staging)
    try:
        with as_default(placement):
            yield placement
    finally:
        placement.backend.close(placement)


@contextmanager
def placed(model: Any, devices: DeviceSpec = "auto", *, batch_norm: BatchNorm = "global") -> Iterator[None]:
    """Inside, train a model on `devices`; afterwards it trains where it trained before."""
    before = placed_before(model)
    placement = _placement(devices, batch_norm, False, True, DEFAULT_STAGING)
    tag(model, placement)
    try:
        yield
    finally:
        if before is None:
            untag(model)
        else:
            tag(model, before)
        placement.backend.close(placement)


def _placement(
    devices: DeviceSpec, batch_norm: BatchNorm, check_numerics: bool, check_rows: bool, staging: Staging
) -> Placement:
    if batch_norm not in ("global", "local"):
        raise BackendError(f"batch_norm={batch_norm!r}", 'give "global" or "local"')
    backend = current_backend()
    if is_nothing_placed():
        return Placement(backend, backend.device_names()[:1], batch_norm, check_numerics, staging)
    world = read_world()
    chosen = _chosen(backend, devices) if world.size == 1 else backend.join(world)
    with _installing:
        backend.install(chosen)
        keras_fit.install()
    return Placement(backend, chosen, batch_norm, check_numerics, staging, check_rows)


def _chosen(backend: Backend[Any], devices: DeviceSpec) -> tuple[str, ...]:
    """The devices that a request means. One CPU device instead of GPUs, or for "auto", is reported once."""
    request = parse_devices(devices)
    available = backend.device_names()
    falls_back = available == ("cpu:0",) and not _simulates
    unused = unused_gpus(backend.name, computes_on_cpu=True) if falls_back else None
    try:
        chosen = choose(devices, available)
    except DeviceError as error:
        if unused is None:
            raise
        raise DeviceError(f"{error.message}; {unused.message}", unused.hint) from None
    if unused is not None and "cpu" not in str(request):
        _tell_once(str(unused))
    elif falls_back and unused is None and request == "auto":
        _tell_once(_NO_ACCELERATOR)
    return chosen


@functools.cache
def _tell_once(line: str) -> None:
    tell(line)
