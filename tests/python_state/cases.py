"""Changes by scripts while they train: each case returns a compiled model and the function that changes a value that it reads.

Loaded as a module, and by `bodies.py` a second time as a script: then its functions and classes are in `__main__`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tests.python_state import settings

Case = tuple[Any, Callable[[float], None]]  # the model, and what sets a new scale

SCALE = 1.0
TABLE: dict[str, Any] = {}
WEIGHTS = np.ones(3)


class Config:
    scale = 1.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float = 1.0


class Slotted:
    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 1.0


def squares(y: Any, y_pred: Any, scale: Any) -> Any:
    return scale * ops.mean(ops.square(y - y_pred), axis=-1)


class Reading(keras.Layer):  # type: ignore[misc]
    """A layer that multiplies by the result of `read(self)`."""

    factor = 1.0

    def __init__(self, read: Callable[[Any], Any], **held: Any) -> None:
        super().__init__()
        self.read = read
        for name, value in held.items():
            setattr(self, name, value)

    def call(self, x: Any) -> Any:
        return ops.multiply(x, self.read(self))


class ReadingLoss(keras.losses.Loss):  # type: ignore[misc]
    def __init__(self, read: Callable[[Any], Any], **held: Any) -> None:
        super().__init__()
        self.read = read
        for name, value in held.items():
            setattr(self, name, value)

    def call(self, y: Any, y_pred: Any) -> Any:
        return squares(y, y_pred, self.read(self))


class Weighted(keras.metrics.Mean):  # type: ignore[misc]
    weight = 1.0

    def __init__(self) -> None:
        super().__init__(name="weighted")
        self.weight = 1.0

    def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().update_state(self.weight * ops.sum(y_pred, axis=-1))


def model_of(loss: Any = "mse", layer: Any = None, metrics: Any = (), optimizer: Any = None, dense: Any = None) -> Any:
    between = [] if layer is None else [layer]
    model = keras.Sequential([keras.Input((3,)), dense or keras.layers.Dense(4, activation="tanh"), *between])
    model.add(keras.layers.Dense(1))
    model.compile(optimizer or keras.optimizers.SGD(0.1), loss, metrics=list(metrics))
    return model


def with_layer(read: Callable[[Any], Any], change: Callable[[Any, float], None], **held: Any) -> Case:
    layer = Reading(read, **held)
    return model_of(layer=layer), functools.partial(change, layer)


def with_loss(read: Callable[[Any], Any], change: Callable[[Any, float], None], **held: Any) -> Case:
    loss = ReadingLoss(read, **held)
    return model_of(loss), functools.partial(change, loss)


def put(name: str) -> Callable[[Any, float], None]:
    return lambda holder, scale: setattr(holder, name, scale)


# What a loss, a layer, a metric or an optimizer holds.


def layer_attribute() -> Case:
    return with_layer(lambda self: self.scale, put("scale"), scale=1.0)


def loss_attribute() -> Case:
    return with_loss(lambda self: self.scale, put("scale"), scale=1.0)


def metric_attribute() -> Case:
    metric = Weighted()
    return model_of(metrics=[metric]), lambda scale: setattr(metric, "weight", scale)


def optimizer_attribute() -> Case:
    optimizer = keras.optimizers.Adam(0.05)
    return model_of(optimizer=optimizer), lambda scale: setattr(optimizer, "beta_1", 0.9 * scale)


def regularizer_attribute() -> Case:
    regularizer = keras.regularizers.L2(0.1)
    dense = keras.layers.Dense(4, kernel_regularizer=regularizer)
    return model_of(dense=dense), lambda scale: setattr(regularizer, "l2", scale)


def activation_replaced() -> Case:
    dense = keras.layers.Dense(4, activation="relu")
    return model_of(dense=dense), lambda scale: setattr(dense, "activation", ops.sin if scale < 0.4 else ops.tanh)


def list_item() -> Case:
    return with_layer(
        lambda self: self.scales[0], lambda layer, scale: layer.scales.__setitem__(0, scale), scales=[1.0]
    )


def list_appended() -> Case:
    return with_loss(lambda self: self.scales[-1], lambda loss, scale: loss.scales.append(scale), scales=[1.0])


def dict_item() -> Case:
    return with_loss(
        lambda self: self.table["a"]["b"], lambda loss, s: loss.table["a"].update(b=s), table={"a": {"b": 1.0}}
    )


def dict_reordered() -> Case:
    def change(loss: Any, scale: float) -> None:
        first = next(iter(loss.table))
        loss.table[first] = loss.table.pop(first)

    return with_loss(lambda self: next(iter(self.table.values())), change, table={"a": 1.0, "b": 0.5, "c": 0.25})


def ordered_dict_reordered() -> Case:
    def change(scale: float) -> None:
        TABLE["order"].move_to_end(next(iter(TABLE["order"])))

    TABLE["order"] = OrderedDict(a=1.0, b=0.5, c=0.25)
    return model_of(reads_order), change


def reads_order(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, next(iter(TABLE["order"].values())))


def dict_replaced() -> Case:
    return with_layer(
        lambda self: self.table["b"], lambda layer, s: setattr(layer, "table", {"b": s}), table={"b": 1.0}
    )


def deque_rotated() -> Case:
    scales = deque([1.0, 0.5, 0.25, 2.0, 0.125])
    return with_loss(lambda self: self.scales[0], lambda loss, scale: loss.scales.rotate(1), scales=scales)


def set_member() -> Case:
    def change(loss: Any, scale: float) -> None:
        loss.names ^= {"half"}

    return with_loss(lambda self: 0.5 if "half" in self.names else 1.0, change, names={"a"})


def array_in_place() -> Case:
    def change(layer: Any, scale: float) -> None:
        layer.mask[1] = scale

    return with_layer(lambda self: self.mask, change, mask=np.ones(4, "float32"))


def nested_object() -> Case:
    def change(layer: Any, scale: float) -> None:
        layer.config.inner.scale = scale

    Config.scale = 1.0
    config = types.SimpleNamespace(inner=Config())
    return with_layer(lambda self: self.config.inner.scale, change, config=config)


def slotted_object() -> Case:
    return with_loss(
        lambda self: self.config.scale, lambda loss, scale: put("scale")(loss.config, scale), config=Slotted()
    )


def attributes_replaced() -> Case:
    """As for an object that shares its attributes with others."""

    def change(layer: Any, scale: float) -> None:
        layer.config.__dict__ = {"scale": scale}

    config = Config()
    config.scale = 1.0
    return with_layer(lambda self: self.config.scale, change, config=config)


def equal_of_another_type() -> Case:
    def change(loss: Any, scale: float) -> None:
        loss.flag = 1 if scale < 0.4 else True

    return with_loss(lambda self: 0.5 if self.flag is True else 1.0, change, flag=1)


def equal_item_of_another_type() -> Case:
    def change(scale: float) -> None:
        TABLE["kind"] = 1.0 if scale < 0.4 else 1

    TABLE["kind"] = 1.0
    return model_of(reads_kind), change


def reads_kind(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, 0.5 if isinstance(TABLE["kind"], int) else 1.0)


def equal_global_of_another_type() -> Case:
    global SCALE
    SCALE = 1.0

    def change(scale: float) -> None:
        global SCALE
        SCALE = 1.0 if scale < 0.4 else 1

    return model_of(reads_kind_of_global), change


def reads_kind_of_global(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, 0.5 if isinstance(SCALE, int) else 1.0)


def frozen_dataclass_replaced() -> Case:
    def change(layer: Any, scale: float) -> None:
        layer.config = dataclasses.replace(layer.config, scale=scale)

    return with_layer(lambda self: self.config.scale, change, config=Frozen())


def variable_of_a_loss() -> Case:
    return with_loss(
        lambda self: self.weight, lambda loss, scale: loss.weight.assign(scale), weight=keras.Variable(1.0)
    )


def partial_keyword() -> Case:
    loss = functools.partial(squares, scale=1.0)
    loss.__name__ = "partial"  # type: ignore[attr-defined]
    return model_of(loss), lambda scale: loss.keywords.update(scale=scale)


def attribute_of_a_callback() -> Case:
    class Holds(keras.callbacks.Callback):  # type: ignore[misc]
        scale = 1.0

    callback = Holds()
    return model_of(lambda y, y_pred: squares(y, y_pred, callback.scale)), functools.partial(put("scale"), callback)


# What functions read.


def global_name() -> Case:
    global SCALE
    SCALE = 1.0

    def change(scale: float) -> None:
        global SCALE
        SCALE = scale

    return model_of(reads_global), change


def reads_global(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, SCALE)


def global_array() -> Case:
    global WEIGHTS
    WEIGHTS = np.ones(3)

    def change(scale: float) -> None:
        global WEIGHTS
        WEIGHTS = np.full(3, scale)

    return model_of(reads_global_array), change


def reads_global_array(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, float(WEIGHTS.mean()))


def global_dict() -> Case:
    TABLE["scale"] = 1.0
    return model_of(reads_table), lambda scale: TABLE.__setitem__("scale", scale)


def reads_table(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, TABLE["scale"])


def module_attribute() -> Case:
    settings.scale = 1.0
    return model_of(reads_module), functools.partial(put("scale"), settings)


def reads_module(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, settings.scale)


def closure() -> Case:
    scale = 1.0

    def loss(y: Any, y_pred: Any) -> Any:
        return squares(y, y_pred, scale)

    def change(new: float) -> None:
        nonlocal scale
        scale = new

    return model_of(loss), change


def default_argument() -> Case:
    def loss(y: Any, y_pred: Any, scale: float = 1.0) -> Any:
        return squares(y, y_pred, scale)

    return model_of(loss), lambda scale: setattr(loss, "__defaults__", (scale,))


def keyword_default() -> Case:
    def loss(y: Any, y_pred: Any, *, scale: float = 1.0) -> Any:
        return squares(y, y_pred, scale)

    return model_of(loss), lambda scale: setattr(loss, "__kwdefaults__", {"scale": scale})


def function_attribute() -> Case:
    reads_its_own.scale = 1.0  # type: ignore[attr-defined]
    return model_of(reads_its_own), functools.partial(put("scale"), reads_its_own)


def reads_its_own(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, reads_its_own.scale)  # type: ignore[attr-defined]


def function_replaced() -> Case:
    global helper
    helper = one

    def change(scale: float) -> None:
        global helper
        helper = lambda: scale  # noqa: E731

    return model_of(calls_helper), change


def one() -> float:
    return 1.0


helper = one


def calls_helper(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, helper())


def function_put_back() -> Case:
    """A patch that holds for a while."""
    original = patched

    def change(scale: float) -> None:
        global patched
        patched = original if scale < 0.4 else lambda: scale

    change(0.0)
    return model_of(calls_patched), change


def patched() -> float:
    return 1.0


def calls_patched(y: Any, y_pred: Any) -> Any:
    return squares(y, y_pred, patched())


def two_names_of_one_object() -> Case:
    """A layer holds the dict that a loss reads as a global."""
    TABLE["scale"] = 1.0
    layer = Reading(lambda self: self.held.table["scale"], held=types.SimpleNamespace(table=TABLE))
    return model_of(reads_table, layer=layer), lambda scale: TABLE.__setitem__("scale", scale)


# Classes.


def class_attribute() -> Case:
    Reading.factor = 1.0
    return with_layer(lambda self: self.factor, lambda layer, scale: put("factor")(Reading, scale))


def config_class() -> Case:
    Config.scale = 1.0
    return with_loss(lambda self: self.config.scale, lambda loss, scale: put("scale")(Config, scale), config=Config)


def method_replaced() -> Case:
    class Own(Reading):
        pass

    layer = Own(lambda self: 1.0)

    def change(scale: float) -> None:
        setattr(Own, "call", lambda self, x: x * scale)  # noqa: B010

    return model_of(layer=layer), change


# Code and values of packages, replaced by the script.


def method_of_a_package_replaced() -> Case:
    """A replacement of Rescaling's `call` that calls the replaced one."""
    original = keras.layers.Rescaling.call

    def change(scale: float) -> None:
        keras.layers.Rescaling.call = lambda self, x: original(self, x) * scale

    change(1.5)
    return model_of(layer=keras.layers.Rescaling(1.0)), change


def method_of_a_base_class_of_a_package_replaced() -> Case:
    class Own(keras.layers.UnitNormalization):  # type: ignore[misc]
        pass

    def change(scale: float) -> None:
        keras.layers.UnitNormalization.call = lambda self, x: x * scale

    change(1.5)
    return model_of(layer=Own()), change


def method_of_a_package_put_back() -> Case:
    original = keras.layers.LeakyReLU.call

    def change(scale: float) -> None:
        keras.layers.LeakyReLU.call = original if scale < 0.4 else lambda self, x: x * scale

    change(1.0)
    return model_of(layer=keras.layers.LeakyReLU()), change


def class_attribute_of_a_package() -> Case:
    keras.layers.Cropping1D.factor = 1.5
    layer = Reading(lambda self: keras.layers.Cropping1D.factor)
    return model_of(layer=layer), lambda scale: put("factor")(keras.layers.Cropping1D, scale)


def function_of_a_package_replaced() -> Case:
    original = ops.hard_tanh

    def change(scale: float) -> None:
        ops.hard_tanh = lambda x: original(x) * scale

    change(1.5)
    return model_of(layer=Reading(lambda self: ops.hard_tanh(0.5))), change


def function_of_a_package_put_back() -> Case:
    original = ops.celu

    def change(scale: float) -> None:
        ops.celu = original if scale < 0.4 else lambda x: scale * x

    change(1.5)
    return model_of(layer=Reading(lambda self: ops.celu(0.5))), change


def function_that_a_package_reads() -> Case:
    """A function that is replaced before the first step; a value that it reads changes later."""
    import torch

    held = {"scale": 1.5}
    torch.nn.functional.softsign = lambda x: x * held["scale"]  # type: ignore[assignment]
    return model_of(layer=keras.layers.Activation("softsign")), functools.partial(held.__setitem__, "scale")


def torch_beside_ops() -> Case:
    """cloudpickle takes the name `ops` beside torch for `torch.ops`, a module that it cannot pickle."""
    import torch

    return with_layer(lambda self: float(torch.tensor(self.scale)) * ops.ones(()), put("scale"), scale=1.5)


def global_of_a_package() -> Case:
    keras.layers.SCALE = 1.5
    return model_of(layer=Reading(lambda self: keras.layers.SCALE)), lambda scale: put("SCALE")(keras.layers, scale)


# What a step changes by itself.


def counter_of_a_step() -> Case:
    """The layer counts its calls; the script sets the count back."""
    return with_layer(count, lambda layer, scale: setattr(layer, "calls", int(10 * scale)), calls=0)


def count(self: Any) -> Any:
    self.calls += 1
    return 1.0 / (1 + self.calls % 7)
