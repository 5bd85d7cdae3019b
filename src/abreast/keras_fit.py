"""How Keras's own `fit`, `evaluate`, `predict` and `_on_batch` methods train a placed model: with our feed and our steps.

The methods of `keras.Model` are wrapped once. For a model without a placement (`placed_models.py`) they do what plain Keras does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter_ns
from typing import Any

import keras

from abreast import first_use, horovod, spans
from abreast.backend.contract import Kind, Placement
from abreast.checkpoints.reached import code_of_steps
from abreast.checkpoints.which_fit import kept, say_that_loops_are_not_kept
from abreast.errors import DataError, ModelError
from abreast.exact import overrides_step
from abreast.feed import BetweenSteps, Feed, Source, cut_validation, pace_of, wait_for_turn
from abreast.feed.own_callbacks import acting_on_batches, save_on_batches
from abreast.keras_private.callback_lists import use_one_thread
from abreast.keras_private.data_adapters import DataAdapter, unpack_x_y_sample_weight
from abreast.keras_private.epochs import noted, noting
from abreast.keras_private.modules import module_of
from abreast.keras_private.trainers import BaseTrainer
from abreast.numerics import watch_loss
from abreast.placed_models import placement_of, scopes, tag
from abreast.together import callbacks_of_all, take_part

_KINDS: tuple[Kind, ...] = ("train", "test", "predict")


@functools.cache
def install() -> None:
    """Extend `keras.Model` to several devices. Runs once."""
    model: Any = keras.Model
    lead(model)
    use_one_thread(_is_placed)
    model.__init__ = _tagging(model.__init__)
    # Keras restores a loaded model's compile settings only if the model's `compile` comes from this class.
    BaseTrainer.compile = _tagging(BaseTrainer.compile)


def _is_placed(model: Any) -> bool:
    return isinstance(model, keras.Model) and placement_of(model) is not None


def lead(trainer: Any) -> None:
    """Wrap the public methods of a class with `_method`, and the makers of its step functions with `_maker`."""
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
        horovod.refuse(self, bound.arguments.get("callbacks"))
        _refuse_own_functions(self)
        if feed is not None:
            feed(bound.arguments, placement)
        elif plain.__name__ == "train_on_batch":
            first_use.begins(placement, None)
            say_that_loops_are_not_kept()
        if plain.__name__ not in ("fit", "train_on_batch"):
            first_use.without_training(placement)
        feeds = [value for value in bound.arguments.values() if isinstance(value, Feed)]
        failed = True
        try:
            with ExitStack() as until_end:
                take_part(plain.__name__, bound.arguments, placement, until_end)
                until_end.enter_context(noting(self, None))  # of a `fit` around this call
                result = (
                    kept(plain, bound, placement) if plain.__name__ == "fit" else plain(*bound.args, **bound.kwargs)
                )
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
            function = _watched(step.for_keras, kind)
            setattr(self, name, noted(self, function) if kind == "train" else function)
        return getattr(self, name)

    return make_function


def _refuse_own_functions(model: Any) -> None:
    """Raise `ModelError` if the user set the function that runs a step, which would run on one device.

    A class with a `make_train_function` of its own may call Keras's, and so ours.
    """
    for kind in _KINDS:
        is_set = _is_foreign(getattr(model, f"{kind}_function", None))
        if f"make_{kind}_function" in vars(model) or (
            is_set and not _is_foreign(getattr(type(model), f"make_{kind}_function"))
        ):
            raise ModelError(
                f"{model.name} has a {kind}_function of its own, which would run on one device",
                f"override {kind}_step instead, which runs on every device",
            )


def _is_foreign(function: Any) -> bool:
    module = "" if function is None else module_of(function)
    return bool(module) and not module.startswith(("abreast.", "keras.", "tensorflow.", "jax", "torch."))


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
        stack = scopes()
        if stack:
            tag(self, stack[-1])
        return result

    return method


def _feed_fit(arguments: dict[str, Any], placement: Placement) -> None:
    cut_validation(arguments)
    _check_same_classes(arguments["x"], arguments["validation_data"])
    model = arguments["self"]
    acting, saves = _acting("fit", arguments, placement)
    if arguments["validation_data"] is not None:
        arguments["validation_data"] = _feed(
            model,
            "test",
            placement,
            unpack_x_y_sample_weight(arguments["validation_data"]),
            BetweenSteps(callbacks=acting),
            batch_size=arguments["validation_batch_size"] or arguments["batch_size"],
            steps_per_epoch=arguments["validation_steps"],
        )
        arguments["validation_data"].may_be_empty = True  # Keras warns and continues
    arguments["x"] = _feed(
        model,
        "train",
        placement,
        (arguments["x"], arguments["y"], arguments["sample_weight"]),
        BetweenSteps(
            model,
            acting,
            _own_python_step(model, placement),
            saves,
            tuple(code_of_steps(model)) if _steps_run_python(model, placement) else (),
        ),
        batch_size=arguments["batch_size"],
        steps_per_epoch=arguments["steps_per_epoch"],
        shuffle=arguments["shuffle"],
        class_weight=arguments["class_weight"],
    )
    arguments["x"].on_first_batch = functools.partial(first_use.begins, placement)
    arguments["y"] = arguments["sample_weight"] = None
    arguments["callbacks"] = watch_loss(
        arguments["callbacks"], arguments["x"], placement.num_devices, placement.check_numerics
    )


def _feed_evaluate(arguments: dict[str, Any], placement: Placement) -> None:
    data = (arguments["x"], arguments["y"], arguments["sample_weight"])
    between_steps = BetweenSteps(callbacks=_acting("evaluate", arguments, placement)[0])
    arguments["x"] = _feed(
        arguments["self"],
        "test",
        placement,
        data,
        between_steps,
        batch_size=arguments["batch_size"],
        steps_per_epoch=arguments["steps"],
    )
    arguments["y"] = arguments["sample_weight"] = None


def _feed_predict(arguments: dict[str, Any], placement: Placement) -> None:
    data = (arguments["x"], None, None)
    between_steps = BetweenSteps(callbacks=_acting("predict", arguments, placement)[0])
    arguments["x"] = _feed(
        arguments["self"],
        "predict",
        placement,
        data,
        between_steps,
        batch_size=arguments["batch_size"],
        steps_per_epoch=arguments["steps"],
    )
    if (own_batches := arguments["x"].own_batches) is not None:
        own_batches.may_repeat = True


def _acting(name: str, arguments: dict[str, Any], placement: Placement) -> tuple[tuple[Any, ...], bool]:
    callbacks = arguments["callbacks"]
    return callbacks_of_all(placement.backend.job, name, acting_on_batches(callbacks), save_on_batches(callbacks))


_FEEDS: dict[str, Callable[[dict[str, Any], Placement], None]] = {
    "fit": _feed_fit,
    "evaluate": _feed_evaluate,
    "predict": _feed_predict,
}


def _feed(
    model: Any,
    kind: Kind,
    placement: Placement,
    data: tuple[Any, Any, Any],
    between_steps: BetweenSteps,
    batch_size: int | None,
    **options: Any,
) -> Feed:
    if batch_size is not None and batch_size < 1:
        raise DataError(
            f"batch_size={batch_size} is not allowed",
            "a batch has at least 1 row; batch_size counts the rows of all devices",
        )
    x, y, weight = data
    if isinstance(x, Feed):
        return x
    if isinstance(x, DataAdapter):
        _check_alone(y=y, sample_weight=weight, class_weight=options.get("class_weight"))
    backend = placement.backend
    source = Source(
        x,
        {"y": y, "sample_weight": weight, "batch_size": batch_size, **options},
        functools.partial(backend.source, placement=placement),
    )
    stage = backend.stage(placement)
    # The batch size as text: an array of one number, which Keras accepts, has no hash.
    pace = functools.partial(pace_of, model, kind, placement.devices, str(batch_size))
    return Feed(source, stage, placement.staging, between_steps, pace)


def _own_python_step(model: Any, placement: Placement) -> tuple[str, ...]:
    """The name of the user's `train_step`, if its Python runs at every batch; compiled, it runs only once."""
    if overrides_step(model) and _steps_run_python(model, placement):
        return (f"{type(model).__name__}.train_step",)
    return ()


def _steps_run_python(model: Any, placement: Placement) -> bool:
    return bool(placement.backend.steps_run_python or model.run_eagerly)


def _check_same_classes(train: Any, validation: Any) -> None:
    """Raise `DataError` if a class number has different names in the training and the validation data."""
    if isinstance(validation, tuple) and validation:
        validation = validation[0]
    if not (isinstance(train, DataAdapter) and isinstance(validation, DataAdapter)):
        return
    one, other = (getattr(each, "class_names", None) or () for each in (train, validation))
    for number, (name, different) in enumerate(zip(one, other, strict=False)):
        if name != different:
            raise DataError(
                f"class {number} is {name!r} in the training data, and {different!r} in the validation data",
                "give the validation data the same numbers: ImageRecords(..., class_names=train.class_names)",
            )


def _check_alone(**beside: Any) -> None:
    """Raise `DataError` for arguments beside a data adapter: Keras would not pass them to it."""
    for name, value in beside.items():
        if value is not None:
            raise DataError(
                f"{name} can only be used with arrays; this source has its own targets and weights",
                "name columns of the data set: ImageRecords(..., targets=..., weights=...)",
            )
