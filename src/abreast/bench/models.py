"""Models by name: Keras Applications, a few classics of our own, and `module:function` of a user.

Only building a model imports Keras; checking a name does not.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abreast.errors import ModelError, a_type
from abreast.nearest import did_you_mean

_IMAGENET_CLASSES = 1000
_WORDS, _LENGTH = 8192, 128  # for the transformer

# In Keras's spelling.
APPLICATIONS = (
    *("ConvNeXtTiny", "ConvNeXtSmall", "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtXLarge"),
    *("DenseNet121", "DenseNet169", "DenseNet201"),
    *(f"EfficientNetB{size}" for size in range(8)),
    *(f"EfficientNetV2{size}" for size in ("B0", "B1", "B2", "B3", "S", "M", "L")),
    *("InceptionResNetV2", "InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small"),
    *("NASNetLarge", "NASNetMobile"),
    *("ResNet50", "ResNet101", "ResNet152", "ResNet50V2", "ResNet101V2", "ResNet152V2"),
    *("VGG16", "VGG19", "Xception"),
)


@dataclass(frozen=True)
class Known:
    """A model of our own: `make(shape, classes)` builds it, and `shape`, `classes` and `rows` are its defaults."""

    make: Callable[[tuple[int, ...], int], Any]
    shape: tuple[int, ...]
    classes: int = 10
    rows: int = 64  # per device


def resolve(name: str) -> str:
    """The name in our spelling. Raises `ModelError` for an unknown model, with the nearest names."""
    if ":" in name:
        check_module(name, "a model")
        return name
    known = {_plain(each): each.lower() for each in (*OWN, *APPLICATIONS)}
    if _plain(name) not in known:
        hint = f"{did_you_mean(name, known.values())} Your own model is module:function"
        raise ModelError(f"there is no model {name!r}", hint)
    return known[_plain(name)]


def default_rows(name: str) -> int:
    """Default rows per device."""
    return OWN[name].rows if name in OWN else 32


def build(name: str, shape: tuple[int, ...] | None = None, classes: int | None = None) -> Any:
    """The model; its output is logits unless it is a user's. Raises `ModelError`."""
    if ":" in name:
        return _built_by_user(name)
    if name in OWN:
        known = OWN[name]
        return known.make(shape or known.shape, classes or known.classes)
    return _application(name, shape, classes or _IMAGENET_CLASSES)


def function(name: str, what: str) -> Callable[..., Any]:
    """The function that `module:function` names; `what` names its result in errors."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise
        raise _no_module(module_name, what) from None
    except SystemExit as end:
        raise ModelError(
            f"{module_name} ended the process when it was imported (exit code {end.code})",
            'let it parse arguments and train only under `if __name__ == "__main__":`',
        ) from None
    found = getattr(module, function_name, None)
    if not callable(found):
        names = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        hint = did_you_mean(function_name, names) if names else f"{module_name} has no functions"
        raise ModelError(f"{module_name} has no function {function_name!r} that could return {what}", hint)
    return found  # type: ignore[no-any-return]


def check_module(name: str, what: str) -> None:
    """Raise `ModelError` unless the module of `module:function` can be found; does not import it."""
    module_name, _, function_name = name.partition(":")
    if module_name.endswith(".py"):
        raise ModelError(f"{name!r} names a file", f"write {module_name.removesuffix('.py')}:{function_name}")
    if not function_name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise ModelError(f"{name!r} does not name {what}", "write module:function, as train:make_model")
    here = [os.getcwd(), *sys.path]  # the path of the process that runs it
    if importlib.machinery.PathFinder.find_spec(module_name.partition(".")[0], here) is None:
        raise _no_module(module_name, what)


def _no_module(module_name: str, what: str) -> ModelError:
    return ModelError(
        f"there is no module {module_name!r}, which should return {what}",
        f"run the command where {module_name.replace('.', '/')}.py is, or add its folder to PYTHONPATH",
    )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _built_by_user(name: str) -> Any:
    import keras

    model = function(name, "a model")()
    if not isinstance(model, keras.Model):
        raise ModelError(f"{name} returned {a_type(model)}", "let it take no arguments and return a keras.Model")
    return model


def _application(name: str, shape: tuple[int, ...] | None, classes: int) -> Any:
    import keras

    spelled = next(each for each in APPLICATIONS if each.lower() == name)
    make = getattr(keras.applications, spelled, None)
    if make is None:
        raise ModelError(f"Keras {keras.__version__} has no {spelled}", "take another model, or a newer Keras")
    settings = {"weights": None, "classes": classes, "classifier_activation": None, "input_shape": shape}
    try:
        return make(**{key: value for key, value in settings.items() if key in inspect.signature(make).parameters})
    except ValueError as error:
        raise ModelError(f"{spelled} cannot be built: {error}", "give another --input-shape, or none") from error


def _dense(units: tuple[int, ...]) -> Callable[[tuple[int, ...], int], Any]:
    def make(shape: tuple[int, ...], classes: int) -> Any:
        import keras

        hidden = [keras.layers.Dense(count, activation="relu") for count in units]
        flat = [keras.layers.Flatten()] if len(shape) > 1 else []
        return keras.Sequential([keras.Input(shape), *flat, *hidden, keras.layers.Dense(classes)])

    return make


def _convnet(shape: tuple[int, ...], classes: int) -> Any:
    import keras

    layers = keras.layers
    model = keras.Sequential([keras.Input(shape)])
    for filters in (32, 64, 64):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    model.add(layers.Dense(classes))
    return model


def _cifar10(shape: tuple[int, ...], classes: int) -> Any:
    """The CNN of Keras's CIFAR-10 example, which Rossum measured: 1,250,858 weights."""
    import keras

    layers = keras.layers
    model = keras.Sequential([keras.Input(shape)])
    for filters in (32, 64):
        model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
        model.add(layers.Conv2D(filters, 3, activation="relu"))
        model.add(layers.MaxPooling2D())
        model.add(layers.Dropout(0.25))
    model.add(layers.Flatten())
    model.add(layers.Dense(512, activation="relu"))
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(classes))
    return model


def _alexnet(shape: tuple[int, ...], classes: int) -> Any:
    """AlexNet on one tower, as in Krizhevsky, arXiv:1404.5997 (2014), and TensorFlow's benchmarks."""
    import keras

    layers = keras.layers
    model = keras.Sequential([keras.Input(shape), layers.Conv2D(64, 11, strides=4, activation="relu")])
    model.add(layers.MaxPooling2D(3, 2))
    model.add(layers.Conv2D(192, 5, padding="same", activation="relu"))
    model.add(layers.MaxPooling2D(3, 2))
    for filters in (384, 384, 256):
        model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
    model.add(layers.MaxPooling2D(3, 2))
    model.add(layers.Flatten())
    for _ in range(2):
        model.add(layers.Dense(4096, activation="relu"))
        model.add(layers.Dropout(0.5))
    model.add(layers.Dense(classes))
    return model


def _transformer(shape: tuple[int, ...], classes: int, width: int = 256, heads: int = 4, blocks: int = 4) -> Any:
    """An encoder that classifies sequences of tokens."""
    import keras

    layers = keras.layers
    tokens = keras.Input(shape, dtype="int32")
    x = layers.Embedding(_WORDS, width)(tokens)
    for _ in range(blocks):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * width, activation="gelu")(y)
        x = layers.Add()([x, layers.Dense(width)(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(tokens, layers.Dense(classes)(x))


OWN = {
    "tiny": Known(_dense((64,)), (32,)),
    "mlp": Known(_dense((1024, 1024)), (784,), rows=128),
    "convnet": Known(_convnet, (32, 32, 3)),
    "cifar10": Known(_cifar10, (32, 32, 3)),
    "alexnet": Known(_alexnet, (227, 227, 3), _IMAGENET_CLASSES),
    "transformer": Known(_transformer, (_LENGTH,), rows=32),
}
