"""`DataParallel` and `parallelize`: which models train on several devices, and how Keras's own `fit` gets there.

A model is tagged with a `Placement`. `fit`, `evaluate`, `predict` and the `_on_batch` methods of a tagged model run Keras's own
code with our feed and our step functions. Untagged models are plain Keras.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter_ns
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import keras

from abreast import spans
from abreast.backend import current_backend
from abreast.backend.contract import BatchNorm, Kind, Placement
from abreast.device_request import DeviceSpec, choose
from abreast.errors import BackendError, DataError, ModelError
from abreast.exact import overrides_step
from abreast.feed import BetweenSteps, Feed, Source, cut_validation, wait_for_turn
from abreast.feed.own_callbacks import acting_on_batches, save_on_batches
from abreast.keras_private.data_adapters import DataAdapter, unpack_x_y_sample_weight
from abreast.keras_private.trainers import BaseTrainer
from abreast.launchers import read_world
from abreast.numerics import watch_loss
from abreast.staging import DEFAULT_STAGING, Staging

Model = TypeVar("Model")

_KINDS: tuple[Kind, ...] = ("train", "test", "predict")

_placements: WeakKeyDictionary[Any, Placement] = WeakKeyDictionary()
_default: Placement | None = None
_nothing_placed = False
_installing = threading.Lock()
_active = threading.local()  # the placements whose `with` blocks this thread is in


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
        _stack().append(self.placement)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _stack().pop()

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
    _tag(model, _placement(devices, batch_norm, check_numerics, check_rows, staging))
    return model


def use_cpu_devices(count: int) -> None:
    """Simulate `count` devices on the CPU, for trials without a GPU. Call it before anything is computed."""
    if count < 1:
        raise BackendError(f"{count} simulated CPU devices", "ask for at least 1")
    current_backend().use_cpu_devices(count)


def devices() -> tuple[str, ...]:
    """Names of the devices that the current backend can train on, such as `("gpu:0", "gpu:1")`."""
    return current_backend().device_names()


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
    global _default
    before, _default = _default, _placement(devices, batch_norm, check_numerics, check_rows, staging)
    try:
        yield _default
    finally:
        placement, _default = _default, before
        placement.backend.close(placement)


@contextmanager
def nothing_placed() -> Iterator[None]:
    """Inside, train all models of the process with plain Keras, whatever their placement: one side of a comparison."""
    global _nothing_placed
    _nothing_placed = True
    _forget_step_functions()
    try:
        yield
    finally:
        _nothing_placed = False
        _forget_step_functions()


@contextmanager
def placed(model: Any, devices: DeviceSpec = "auto", *, batch_norm: BatchNorm = "global") -> Iterator[None]:
    """Inside, train a model on `devices`; afterwards it trains where it trained before."""
    before = _placements.get(model)
    placement = _placement(devices, batch_norm, False, True, DEFAULT_STAGING)
    _tag(model, placement)
    try:
        yield
    finally:
        if before is None:
            _placements.pop(model, None)
            model.train_function = model.test_function = model.predict_function = None
        else:
            _tag(model, before)
        placement.backend.close(placement)


@contextmanager
def on_first_devices(model: Any, count: int) -> Iterator[None]:
    """Train a placed model on the first `count` of its devices inside the block, with the training step that it has."""
    placement = _placements[model]
    _tag_with_its_step(model, replace(placement, devices=placement.devices[:count]))
    try:
        yield
    finally:
        _tag_with_its_step(model, placement)


def placement_facts() -> dict[str, list[str]]:
    """The devices of all models that are placed now, and the `batch_norm` settings of their placements."""
    placements = [] if _nothing_placed else list(_placements.values())
    devices = sorted({device for placement in placements for device in placement.devices})
    return {"devices": devices, "batch_norm": sorted({placement.batch_norm for placement in placements})}


def _forget_step_functions() -> None:
    for model in list(_placements):
        model.train_function = model.test_function = model.predict_function = None


def _placement(
    devices: DeviceSpec, batch_norm: BatchNorm, check_numerics: bool, check_rows: bool, staging: Staging
) -> Placement:
    if batch_norm not in ("global", "local"):
        raise BackendError(f"batch_norm={batch_norm!r}", 'give "global" or "local"')
    backend = current_backend()
    if _nothing_placed:
        return Placement(backend, backend.device_names()[:1], batch_norm, check_numerics, staging)
    world = read_world()
    chosen = choose(devices, backend.device_names()) if world.size == 1 else backend.join(world)
    with _installing:
        backend.install(chosen)
        _install()
    return Placement(backend, chosen, batch_norm, check_numerics, staging, check_rows)


def placement_of(model: Any) -> Placement | None:
    """A model's placement; None for plain Keras. A first use inside a scope tags the model."""
    if _nothing_placed:
        return None
    placement = _placements.get(model)
    if placement is None and (around := _around()) is not None:
        placement = _tag(model, around)
    return placement


def _around() -> Placement | None:
    stack = _stack()
    return stack[-1] if stack else _default


def _stack() -> list[Placement]:
    if not hasattr(_active, "stack"):
        _active.stack = []
    stack: list[Placement] = _active.stack
    return stack


def _tag(model: Any, placement: Placement) -> Placement:
    if _placements.get(model) != placement:
        _placements[model] = placement
        model.train_function = model.test_function = model.predict_function = None
    return placement


def _tag_with_its_step(model: Any, placement: Placement) -> None:
    function = model.train_function
    _tag(model, placement)
    model.train_function = function


@functools.cache
def _install() -> None:
    """Extend `keras.Model` to several devices. Runs once."""
    model: Any = keras.Model
    _lead(model)
    model.__init__ = _tagging(model.__init__)
    # Keras restores a loaded model's compile settings only if the model's `compile` is that of this class.
    BaseTrainer.compile = _tagging(BaseTrainer.compile)


def _lead(trainer: Any) -> None:
    """Wrap the public methods of a class by `_method`, and the makers of its step functions by `_maker`."""
    for name in ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"):
        setattr(trainer, name, _method(getattr(trainer, name), _FEEDS.get(name)))
    for kind in _KINDS:
        setattr(trainer, f"make_{kind}_function", _maker(getattr(trainer, f"make_{kind}_function"), kind))


def _method(plain: Callable[..., Any], feed: Callable[[dict[str, Any], Placement], None] | None) -> Callable[..., Any]:
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        placement = placement_of(self)
        if placement is None or "_use_cached_eval_dataset" in kwargs:  # Keras passes this in the validation of `fit`
            return plain(self, *args, **kwargs)
        if placement.num_devices > 1:
            wait_for_turn(f"the data source calls {plain.__name__} of a model on {placement.num_devices} devices")
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        if feed is not None:
            feed(bound.arguments, placement)
        feeds = [value for value in bound.arguments.values() if isinstance(value, Feed)]
        failed = True
        try:
            result = plain(*bound.args, **bound.kwargs)
            failed = False
            return result
        finally:
            for each in feeds:
                each.close()
            placement.backend.settle(self, placement, failed)

    return method


def _maker(plain: Callable[..., Any], kind: Kind) -> Callable[..., Any]:
    name = f"{kind}_function"

    @functools.wraps(plain)
    def make_function(self: Any, force: bool = False) -> Any:
        placement = placement_of(self)
        if placement is None:
            return plain(self, force=force)
        placement.backend.place(self, placement)
        if force or getattr(self, name) is None:
            step = placement.backend.step_function(kind, self, placement)
            setattr(self, name, _watched(step.for_keras, kind))
        return getattr(self, name)

    return make_function


def _watched(step: Callable[..., Any], kind: Kind) -> Callable[..., Any]:
    """A step function that records a span for each call."""
    number = _KINDS.index(kind)

    def watched(*arguments: Any) -> Any:
        if not spans.LISTENERS:
            return step(*arguments)
        start = perf_counter_ns()
        try:
            return step(*arguments)
        finally:
            spans.leave(spans.MAIN, "step", start, perf_counter_ns(), kind=number)

    return watched


def _tagging(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        stack = _stack()
        if stack:
            _tag(self, stack[-1])
        return result

    return method


def _feed_fit(arguments: dict[str, Any], placement: Placement) -> None:
    cut_validation(arguments)
    model = arguments["self"]
    acting = _acting(arguments["callbacks"])
    if arguments["validation_data"] is not None:
        arguments["validation_data"] = _feed(
            placement,
            unpack_x_y_sample_weight(arguments["validation_data"]),
            BetweenSteps(callbacks=acting),
            batch_size=arguments["validation_batch_size"] or arguments["batch_size"],
            steps_per_epoch=arguments["validation_steps"],
        )
        arguments["validation_data"].may_be_empty = True  # Keras warns and continues
    arguments["x"] = _feed(
        placement,
        (arguments["x"], arguments["y"], arguments["sample_weight"]),
        BetweenSteps(model, acting, _own_python_step(model, placement), save_on_batches(arguments["callbacks"])),
        batch_size=arguments["batch_size"],
        steps_per_epoch=arguments["steps_per_epoch"],
        shuffle=arguments["shuffle"],
        class_weight=arguments["class_weight"],
    )
    arguments["y"] = arguments["sample_weight"] = None
    arguments["callbacks"] = watch_loss(
        arguments["callbacks"], arguments["x"], placement.num_devices, placement.check_numerics
    )


def _feed_evaluate(arguments: dict[str, Any], placement: Placement) -> None:
    data = (arguments["x"], arguments["y"], arguments["sample_weight"])
    between_steps = BetweenSteps(callbacks=_acting(arguments["callbacks"]))
    arguments["x"] = _feed(
        placement, data, between_steps, batch_size=arguments["batch_size"], steps_per_epoch=arguments["steps"]
    )
    arguments["y"] = arguments["sample_weight"] = None


def _feed_predict(arguments: dict[str, Any], placement: Placement) -> None:
    data = (arguments["x"], None, None)
    between_steps = BetweenSteps(callbacks=_acting(arguments["callbacks"]))
    arguments["x"] = _feed(
        placement, data, between_steps, batch_size=arguments["batch_size"], steps_per_epoch=arguments["steps"]
    )


_FEEDS: dict[str, Callable[[dict[str, Any], Placement], None]] = {
    "fit": _feed_fit,
    "evaluate": _feed_evaluate,
    "predict": _feed_predict,
}


def _feed(
    placement: Placement,
    data: tuple[Any, Any, Any],
    between_steps: BetweenSteps,
    batch_size: int | None,
    **options: Any,
) -> Feed:
    if batch_size is not None and batch_size < 1:
        raise DataError(
            f"batch_size={batch_size}", "a batch has at least 1 row; batch_size counts the rows of all devices"
        )
    x, y, weight = data
    if isinstance(x, Feed):
        return x
    if isinstance(x, DataAdapter):
        _check_alone(y=y, sample_weight=weight, class_weight=options.get("class_weight"))
    backend = placement.backend
    source = Source(x, {"y": y, "sample_weight": weight, "batch_size": batch_size, **options}, backend.source)
    return Feed(source, backend.stage(placement), placement.staging, between_steps)


def _acting(callbacks: Any) -> tuple[str, ...]:
    """Names of the user's callbacks that may change, between two batches, what a source reads."""
    return tuple(dict.fromkeys(type(each).__name__ for each in acting_on_batches(callbacks)))


def _own_python_step(model: Any, placement: Placement) -> tuple[str, ...]:
    """The name of the user's `train_step`, if its Python runs at every batch; compiled, it runs only once."""
    if overrides_step(model) and (placement.backend.steps_run_python or model.run_eagerly):
        return (f"{type(model).__name__}.train_step",)
    return ()


def _check_alone(**beside: Any) -> None:
    """Raise `DataError` for arguments beside a data adapter: Keras would not pass them to it."""
    for name, value in beside.items():
        if value is not None:
            raise DataError(
                f"{name} can only be used with arrays; this source has its own targets and weights",
                "name columns of the data set: ImageRecords(..., targets=..., weights=...)",
            )
