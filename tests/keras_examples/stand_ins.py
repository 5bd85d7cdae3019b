"""Replacements in an example's process for downloads, plots, long trainings and random layers; and a record of results.

Imports Keras; `abreast` must have placed it before, or never will. Not here: the data (`made_up.py`).
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tests.keras_examples import made_up

EPOCHS, STEPS = 2, 3


class Recorder:
    """The results of each call of `fit`, `evaluate`, `predict` and `train_on_batch`, in order; warnings; replaced functions."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.draws: set[str] = set()

    def add(self, kind: str, values: Any) -> None:
        self.calls.append({"call": kind, "values": values})


def install(recorder: Recorder, random_layers: bool) -> None:
    _listen_to_warnings(recorder)
    _replace_data()
    _replace_packages()
    _shorten(recorder)
    if not random_layers:
        _still_random_layers(recorder)


def _listen_to_warnings(recorder: Recorder) -> None:
    def show(message: Any, category: Any, filename: str, *_: Any, **__: Any) -> None:
        recorder.warnings.append(f"{category.__name__}: {message} ({filename})")

    warnings.showwarning = show


# Data.


def _replace_data() -> None:
    sets: Any = keras.datasets
    sets.mnist.load_data = sets.fashion_mnist.load_data = made_up.images(28, 1, 10)
    sets.cifar10.load_data = made_up.images(32, 3, 10)
    sets.cifar100.load_data = made_up.images(32, 3, 100)
    sets.imdb.load_data = made_up.reviews
    sets.boston_housing.load_data = made_up.houses
    keras.utils.get_file = made_up.get_file
    plain_loadtxt = np.loadtxt
    np.loadtxt = lambda source, *a, **k: (  # type: ignore[assignment]
        made_up.series(source) if str(source).startswith("http") else plain_loadtxt(source, *a, **k)
    )
    _replace_read_csv()


def _replace_read_csv() -> None:
    if importlib.util.find_spec("pandas") is None:
        return
    import pandas

    plain = pandas.read_csv

    def read_csv(source: Any, *arguments: Any, **options: Any) -> Any:
        if str(source).startswith("http"):
            return made_up.read_csv(str(source), options.get("names"))
        return plain(source, *arguments, **options)

    pandas.read_csv = read_csv
    pandas.DataFrame.plot = pandas.Series.plot = lambda *_, **__: Anything()


# Packages that only draw or only load.


class Anything:
    """Takes every call, has every attribute, and is a pair of itself."""

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Anything:
        return self

    def __getitem__(self, _: Any) -> Anything:
        return self

    def __setitem__(self, *_: Any) -> None: ...

    def __iter__(self) -> Iterator[Anything]:
        return iter((self, self))


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


def _replace_packages() -> None:
    for name in (
        "matplotlib",
        "matplotlib.pyplot",
        "matplotlib.cm",
        "matplotlib.patches",
        "gdown",
        "IPython.display",
        "ipywidgets",
        "mpl_toolkits",
        "mpl_toolkits.axes_grid1",
        "mpl_toolkits.axes_grid1.inset_locator",
        "conlleval",
        "datasets",
    ):
        module = _Module(name)
        module.__path__ = []
        sys.modules[name] = module
    sys.modules["gdown"].download = lambda _, output, **__: made_up.get_file(output)  # type: ignore[attr-defined]
    sys.modules["datasets"].load_dataset = made_up.load_dataset  # type: ignore[attr-defined]
    urllib.request.urlretrieve = lambda url, name: made_up.get_file(name, url)  # type: ignore
    sys.modules["tensorflow_datasets"] = _tensorflow_datasets()
    sys.modules["resnet_cifar10_v2"] = _residual_network()
    keras.utils.plot_model = lambda *_, **__: None


def _tensorflow_datasets() -> ModuleType:
    module: Any = _Module("tensorflow_datasets")
    module.Split = type("Split", (), {"TRAIN": "train", "TEST": "test"})
    module.load = _load
    return module  # type: ignore[no-any-return]


_NUM_CLASSES = {"omniglot": 5, "stl10": 10, "tf_flowers": 5}
_ALL_PARTS = ("trainA", "trainB", "testA", "testB")


def _load(name: str, split: Any = _ALL_PARTS, with_info: bool = False, as_supervised: bool = False, **_: Any) -> Any:
    """Pictures with labels as `tf.data`, one data set per split."""
    import tensorflow

    def part(part_name: str) -> Any:
        draw = made_up.random(len(part_name))
        pictures = draw.integers(0, 255, (64, 40, 40, 3)).astype("uint8")
        labels = draw.integers(0, _NUM_CLASSES.get(name, 2), 64)
        rows = (pictures, labels) if as_supervised else {"image": pictures, "label": labels}
        return tensorflow.data.Dataset.from_tensor_slices(rows)

    if split is _ALL_PARTS:
        parts: Any = {one: part(one) for one in split}
    else:
        parts = [part(one) for one in split] if isinstance(split, list | tuple) else part(split)
    return (parts, Anything()) if with_info else parts


def _residual_network() -> ModuleType:
    """A small one in the place of a file that an example downloads."""
    layers = keras.layers

    def block(x: Any, filters: int, strides: int) -> Any:
        short = layers.Conv2D(filters, 1, strides)(x)
        x = layers.Activation("relu")(layers.BatchNormalization()(x))
        return layers.Add()([short, layers.Conv2D(filters, 3, strides, padding="same", use_bias=False)(x)])

    module: Any = ModuleType("resnet_cifar10_v2")
    module.stem = lambda x: layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    module.learner = lambda x, _: block(block(x, 8, 2), 16, 2)
    return module  # type: ignore[no-any-return]


# Short trainings.


def _shorten(recorder: Recorder) -> None:
    model: Any = keras.Model
    model.fit = _fit(model.fit, recorder)
    for name in ("evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"):
        setattr(model, name, _recorded(getattr(model, name), name, recorder))


def _fit(plain: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def fit(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        given = bound.arguments
        given["verbose"] = 0
        given["epochs"] = min(given["epochs"], given["initial_epoch"] + EPOCHS)
        _shorten_source(given, ("x", "y", "sample_weight"), "steps_per_epoch")
        history = plain(*bound.args, **bound.kwargs)
        recorder.add("fit", {name: [float(value) for value in values] for name, values in history.history.items()})
        return history

    return fit


def _shorten_source(given: dict[str, Any], names: tuple[str, ...], steps: str) -> None:
    """Three batches, the last of them short where rows can be cut."""
    x = given[names[0]]
    if hasattr(x, "take") and hasattr(x, "element_spec"):
        given[names[0]] = x.take(STEPS)
    elif _is_rows(x):
        size = given["batch_size"] or 32
        rows = STEPS * size - min(3, size - 1)
        for name in names:
            given[name] = keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[:rows], given[name])
    else:
        given[steps] = min(given[steps] or STEPS, STEPS)


def _is_rows(x: Any) -> bool:
    leaves = keras.tree.flatten(x)
    return bool(leaves) and all(isinstance(leaf, np.ndarray) or keras.ops.is_tensor(leaf) for leaf in leaves)


def _recorded(plain: Callable[..., Any], name: str, recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(plain)
    def method(*arguments: Any, **options: Any) -> Any:
        result = plain(*arguments, **options)
        if "_use_cached_eval_dataset" not in options:
            recorder.add(name, _numbers(result))
        return result

    return method


def _numbers(result: Any) -> list[float]:
    """Numbers themselves; for arrays, the means of their values and of their absolute values."""
    leaves = [np.asarray(keras.ops.convert_to_numpy(leaf), "float64") for leaf in keras.tree.flatten(result)]
    return [
        float(part) for leaf in leaves for part in ([leaf] if leaf.ndim == 0 else [leaf.mean(), np.abs(leaf).mean()])
    ]


# Random layers, which draw other numbers on each replica of TensorFlow and PyTorch.


def _still_random_layers(recorder: Recorder) -> None:
    for name in dir(keras.layers):
        kind = getattr(keras.layers, name)
        if isinstance(kind, type) and ("Dropout" in name or "Noise" in name):
            kind.call = _still(name, recorder)  # type: ignore[attr-defined]
        elif isinstance(kind, type) and name.startswith("Random") and "call" in dir(kind):
            kind.call = _not_training(kind.call, name, recorder)  # type: ignore[attr-defined]
    draws: Any = keras.random
    for name in ("normal", "uniform", "truncated_normal"):
        setattr(draws, name, _constant(f"keras.random.{name}", keras.ops.ones, recorder))
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        tensorflow.random.normal = _constant("tf.random.normal", tensorflow.ones, recorder)
        tensorflow.random.uniform = _constant("tf.random.uniform", tensorflow.ones, recorder)


def _still(name: str, recorder: Recorder) -> Callable[..., Any]:
    def call(self: Any, inputs: Any, training: bool = False) -> Any:
        recorder.draws.add(name)
        return inputs

    return call


def _not_training(plain: Callable[..., Any], name: str, recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: Any, data: Any, training: bool = False) -> Any:
        recorder.draws.add(name)
        return plain(self, data, training=False)

    return call


def _constant(name: str, ones: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """0.3 everywhere; for whole numbers, a number below `maxval`."""

    def draw(shape: Any, *_: Any, maxval: Any = None, dtype: Any = "float32", **__: Any) -> Any:
        recorder.draws.add(name)
        if "int" in str(dtype):
            return maxval // 3 * ones(shape, dtype=dtype)
        return 0.3 * ones(shape, dtype=dtype or "float32")

    return draw
