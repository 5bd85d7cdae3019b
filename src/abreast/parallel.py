"""`DataParallel` and `parallelize`: the choice of devices on which models train.

Not here: the placements of models (`placed_models.py`), and the changes to Keras's own `fit` (`keras_fit.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import keras

from abreast import keras_fit, notebook, together, typed_command
from abreast.backend import current_backend
from abreast.backend.contract import Backend, BatchNorm, Placement, SourceKind
from abreast.backend.unused_gpus import unused_gpus
from abreast.device_request import DeviceSpec, choose, cpu_devices, parse_devices, unused_request
from abreast.errors import BackendError, DataError, DeviceError, ModelError, a_type
from abreast.hosts import in_ray
from abreast.hosts.secret import required_secret
from abreast.launchers import World, read_world
from abreast.placed_models import as_default, is_nothing_placed, placed_before, scopes, tag, untag
from abreast.staging import DEFAULT_STAGING, Staging
from abreast.stderr import tell_once

Model = TypeVar("Model")

_installing = threading.Lock()
_NO_ACCELERATOR = 'devices="auto" found no accelerator: models train on cpu:0 alone'
_simulates = False  # whether the user asked for devices on the CPU


class DataParallel:
    """A choice of devices: every model made or compiled in its `with` block trains on all of them, with one device's result.

    A batch is divided among the devices, so `batch_size` stays the number of rows of the global batch. Models keep their
    devices after the block ends.

    Args:
        devices: `"auto"` is every accelerator, or the CPU if there is none; a number `n` the first `n` devices; indices
            (`[0, 2]`, `"0,2"`) and names (`["gpu:0", "gpu:1"]`) exactly these.
        batch_norm: BatchNormalization uses the statistics of the whole batch, as one device would (`"global"`), or those of
            each device's rows (`"local"`).
        check_numerics: end `fit` at the first loss that is not finite.
        check_rows: search, on the first batch, for layers that relate its rows to one another. Needed where a device sees
            only its own rows (TensorFlow, PyTorch).
        prefetch: number of batches that wait on the devices while a step runs; 0 feeds in the training thread. None means 2,
            or 0 for a source that could see changes by callbacks or steps.
        prefetch_bytes: memory for these batches on all devices together; by default an eighth of the free memory.
        input_timeout: seconds that a step waits for its batch before `fit` ends; None waits for ever.
        source: under a launcher, every process reads the whole data (`"global"`), or each one gives rows of its own
            (`"per-host"`): the global batch then has the rows of all processes, in rank order.

    Raises:
        DeviceError: the devices do not exist.
        BackendError: the backend cannot do what is asked for.
        NumericsError: in `fit`, with `check_numerics`, when a loss is not finite.
        DataError: in `fit`, when a batch takes longer than `input_timeout`.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> abreast.use_cpu_devices(4)  # without GPUs
        >>> parallel = abreast.DataParallel(devices=2)  # `devices` left out: all of them
        >>> parallel.devices
        ('cpu:0', 'cpu:1')
        >>> with parallel:
        ...     model = keras.Sequential([keras.layers.Dense(1)])
        ...     model.compile("adam", "mse")
        >>> x = np.ones((100, 8), "float32")
        >>> history = model.fit(x, x[:, :1], batch_size=32, verbose=0)  # 16 rows on each device
        >>> parallel.close()
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
        source: SourceKind = "global",
    ) -> None:
        staging = Staging(prefetch, prefetch_bytes, input_timeout)
        self.placement = _placement(devices, batch_norm, check_numerics, check_rows, staging, source)

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the chosen devices, a tuple of text in the order of the request."""
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
    source: SourceKind = "global",
) -> Model:
    """The same model; from now on it trains on all of `devices`.

    The other arguments are the same as for `DataParallel`.

    Args:
        model: a Keras model. It may be built, compiled and trained, or none of these.
        devices: `"auto"`, a number, indices or names.
        batch_norm: `"global"` or `"local"` statistics of BatchNormalization.
        check_numerics: end `fit` at the first loss that is not finite.
        check_rows: search for layers that relate the rows of a batch.
        prefetch: number of batches that wait on the devices while a step runs.
        prefetch_bytes: memory for these batches.
        input_timeout: seconds that a step waits for its batch.
        source: whether each process of a launcher reads the whole data, or rows of its own.

    Returns:
        `model` itself.

    Raises:
        ModelError: `model` is not a `keras.Model`.
        DeviceError: the devices do not exist.
        BackendError: the backend cannot do what is asked for.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> abreast.use_cpu_devices(4)  # without GPUs
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> model = abreast.parallelize(model, devices=2)
        >>> x = np.ones((64, 8), "float32")
        >>> history = model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0)
        >>> len(history.history["loss"])
        2
    """
    if not isinstance(model, keras.Model):
        raise ModelError(f"parallelize needs a keras.Model, not {a_type(model)}", "wrap layers in keras.Sequential")
    staging = Staging(prefetch, prefetch_bytes, input_timeout)
    tag(model, _placement(devices, batch_norm, check_numerics, check_rows, staging, source))
    return model


def use_cpu_devices(count: int) -> None:
    """Simulate devices on the CPU, for trials without a GPU. This process then uses no GPU.

    Args:
        count: number of devices, at least 1.

    Raises:
        BackendError: something was computed already.
        DeviceError: `count` is not a whole number of at least 1.

    Example:
        >>> import abreast
        >>> abreast.use_cpu_devices(4)
        >>> abreast.devices()
        ('cpu:0', 'cpu:1', 'cpu:2', 'cpu:3')
    """
    whole = cpu_devices(count)
    global _simulates
    _simulates = True
    current_backend().use_cpu_devices(whole)


def devices() -> tuple[str, ...]:
    """Names of the devices that the current backend can train on, such as `("gpu:0", "gpu:1")`.

    Example:
        >>> import abreast
        >>> abreast.use_cpu_devices(4)
        >>> len(abreast.devices())
        4
    """
    return current_backend().device_names()


def num_devices(devices: DeviceSpec, cpu_devices: int | None) -> int:
    """Number of devices that a request selects, from `cpu_devices` simulated devices or, with None, the present ones."""
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
    source: SourceKind = "global",
) -> Iterator[Placement]:
    """Inside, place every model of the process without a scope of its own. `abreast run` does this for a whole script."""
    placement = _placement(devices, batch_norm, check_numerics, check_rows, staging, source)
    try:
        with as_default(placement):
            yield placement
    finally:
        placement.backend.close(placement)


@contextmanager
def placed(model: Any, devices: DeviceSpec = "auto", *, batch_norm: BatchNorm = "global") -> Iterator[None]:
    """Inside, train a model on `devices`; afterwards its earlier placement returns."""
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
    devices: DeviceSpec,
    batch_norm: BatchNorm,
    check_numerics: bool,
    check_rows: bool,
    staging: Staging,
    source: SourceKind = "global",
) -> Placement:
    if batch_norm not in ("global", "local"):
        raise BackendError(f"batch_norm={batch_norm!r} is not allowed", 'give "global" or "local"')
    if source not in ("global", "per-host"):
        raise DataError(f"source={source!r} is not allowed", 'give "global" or "per-host"')
    backend = current_backend()
    if is_nothing_placed():
        return Placement(backend, backend.device_names()[:1], batch_norm, check_numerics, staging)
    world = read_world()
    chosen = _chosen(backend, devices) if world.size == 1 else _joined(backend, world, devices)
    with _installing:
        backend.install(chosen)
        keras_fit.install()
    return Placement(backend, chosen, batch_norm, check_numerics, staging, check_rows, source)


def _chosen(backend: Backend[Any], devices: DeviceSpec) -> tuple[str, ...]:
    """The devices that a request selects. Reports once if one CPU device is used instead of GPUs, or for "auto"."""
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
        tell_once(str(unused))
    elif falls_back and unused is None and request == "auto":
        tell_once(f"{_NO_ACCELERATOR}\nhint: {_one_device_hint()}")
    return chosen


def _joined(backend: Backend[Any], world: World, devices: DeviceSpec = "auto") -> tuple[str, ...]:
    """Join the job; returns the names of the devices of all processes. Each host's first process reports unusable GPUs."""
    if world.source == "--hosts":
        required_secret(os.environ)
    ranks = backend.join(in_ray.reached(world))
    together.install(world.rank)
    if world.rank == 0 and (line := unused_request(devices, world, ranks)) is not None:
        tell_once(line)
    if world.local_rank == 0 and backend.device_names() == ("cpu:0",):
        unused = unused_gpus(backend.name, computes_on_cpu=True)
        if unused is not None:
            tell_once(str(unused))
    return ranks


def _one_device_hint() -> str:
    simulating = typed_command.simulating("N")
    plain = f"`{simulating}`, or abreast.use_cpu_devices(N), simulates several devices on the CPU"
    return typed_command.late_option_hint() or plain
