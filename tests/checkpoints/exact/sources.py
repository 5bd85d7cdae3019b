"""Sources of the campaign, as the arguments of `fit`. A function is called once per `fit` of each run, as a script would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

ROWS, BATCH = 44, 8
Structure = Callable[[Any, Any], Any]  # how a model wants its rows: (x, y)


def rows(number: int = ROWS, seed: int = 0) -> tuple[Any, Any]:
    x = np.random.default_rng(seed).normal(size=(number, 6)).astype("float32")
    return x, (x[:, :1] * 2 - x[:, 1:2] + 0.1 * x[:, 2:3] ** 2).astype("float32")


def at(data: Any, places: Any) -> Any:
    return keras.tree.map_structure(lambda leaf: leaf[places], data)


def arrays_shuffled(structure: Structure) -> dict[str, Any]:
    x, y = structure(*rows())
    return {"x": x, "y": y, "batch_size": BATCH}


def arrays_shuffled_in_batches(structure: Structure) -> dict[str, Any]:
    return {**arrays_shuffled(structure), "shuffle": "batch"}


def arrays_in_order(structure: Structure) -> dict[str, Any]:
    return {**arrays_shuffled(structure), "shuffle": False}


def arrays_split(structure: Structure) -> dict[str, Any]:
    return {**arrays_shuffled(structure), "validation_split": 0.25}


def tensors_weighted(structure: Structure) -> dict[str, Any]:
    x, y = structure(*rows())
    weights = np.linspace(0.5, 1.5, ROWS).astype("float32")
    weights = keras.tree.map_structure(lambda _: weights, y)
    as_tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, (x, y))
    return {"x": as_tensors[0], "y": as_tensors[1], "sample_weight": weights, "batch_size": BATCH}


def generator_of_numpy(structure: Structure) -> dict[str, Any]:
    data = structure(*rows())

    def batches() -> Iterator[Any]:
        while True:
            yield at(data, np.random.randint(0, ROWS, BATCH))

    return {"x": batches(), "steps_per_epoch": 5}


def generator_of_its_own(structure: Structure) -> dict[str, Any]:
    data, own = structure(*rows()), np.random.default_rng(3)

    def batches() -> Iterator[Any]:
        while True:
            order = own.permutation(ROWS)
            for begin in range(0, ROWS, BATCH):
                yield at(data, order[begin : begin + BATCH])

    return {"x": batches(), "steps_per_epoch": 5}


def generator_until_it_ends(structure: Structure) -> dict[str, Any]:
    data = structure(*rows())

    def batches() -> Iterator[Any]:
        for _ in range(11):
            yield at(data, np.random.randint(0, ROWS, BATCH))

    return {"x": batches(), "epochs": 1}


class Rows(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches by index; `shuffles`: in an order that changes after each epoch; `draws`: with noise."""

    def __init__(self, data: Any, shuffles: bool = False, draws: bool = False, number: int = ROWS, **more: Any) -> None:
        super().__init__(**more)
        self.data, self.shuffles, self.draws, self.number = data, shuffles, draws, number
        self.order = np.arange(number)
        self.generator = np.random.default_rng(9)

    def __len__(self) -> int:
        return -(-self.number // BATCH)

    def __getitem__(self, index: int) -> Any:
        places = self.order[index * BATCH : (index + 1) * BATCH]
        if self.draws:
            places = places[self.generator.permutation(len(places))]
        return at(self.data, places)

    def on_epoch_end(self) -> None:
        if self.shuffles:
            self.generator.shuffle(self.order)


def dataset(structure: Structure) -> dict[str, Any]:
    return {"x": Rows(structure(*rows()))}


def dataset_that_shuffles(structure: Structure) -> dict[str, Any]:
    return {"x": Rows(structure(*rows()), shuffles=True), "shuffle": False}


def dataset_that_draws(structure: Structure) -> dict[str, Any]:
    return {"x": Rows(structure(*rows()), shuffles=True, draws=True)}


def dataset_with_workers(structure: Structure) -> dict[str, Any]:
    return {"x": Rows(structure(*rows()), shuffles=True, workers=2, max_queue_size=3)}


def tf_data(structure: Structure) -> dict[str, Any]:
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(structure(*rows()))
    return {"x": data.shuffle(20, seed=4).batch(BATCH).prefetch(2)}


def tf_data_that_repeats(structure: Structure) -> dict[str, Any]:
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(structure(*rows()))
    return {"x": data.shuffle(ROWS, seed=4).repeat().batch(BATCH), "steps_per_epoch": 4}


def tf_data_of_unknown_length(structure: Structure) -> dict[str, Any]:
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(structure(*rows()))
    return {"x": data.shuffle(30, seed=2).filter(lambda *_: True).batch(BATCH)}


class _Rows:
    """Rows by index, as PyTorch and Grain want them."""

    def __init__(self, data: Any, draws: bool = False) -> None:
        self._data = data
        self._draws = draws

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: Any) -> Any:
        x, y = at(self._data, int(index))
        if self._draws:
            x = keras.tree.map_structure(lambda leaf: leaf + np.float32(np.random.normal(scale=0.1)), x)
        return x, y


_Items: Any = _Rows


def loader(structure: Structure) -> dict[str, Any]:
    import torch

    return {"x": torch.utils.data.DataLoader(_Items(structure(*rows())), BATCH, shuffle=True)}


def loader_with_workers(structure: Structure) -> dict[str, Any]:
    import torch

    return {"x": torch.utils.data.DataLoader(_Items(structure(*rows())), BATCH, shuffle=True, num_workers=1)}


def loader_that_draws(structure: Structure) -> dict[str, Any]:
    import torch

    own = torch.Generator().manual_seed(5)
    items = _Items(structure(*rows()), draws=True)
    return {"x": torch.utils.data.DataLoader(items, BATCH, shuffle=True, generator=own)}


def grain_data(structure: Structure) -> dict[str, Any]:
    import grain

    return {"x": grain.MapDataset.source(_Items(structure(*rows()))).shuffle(seed=5).batch(BATCH)}


def image_records(structure: Structure) -> dict[str, Any]:
    import abreast
    from tests.checkpoints.exact import pictures

    return {"x": abreast.ImageRecords(pictures.packed(), BATCH, size=8, seed=4, num_threads=2, augment=True)}


def validation(name: str, structure: Structure, source: str) -> dict[str, Any]:
    """The arguments of `fit` for validation; of the "same kind" as a source."""
    data = structure(*rows(12, seed=1))
    if name == "none":
        return {}
    if name == "generator":
        own = np.random.default_rng(6)

        def batches() -> Iterator[Any]:
            while True:
                yield at(data, own.integers(0, 12, BATCH))

        return {"validation_data": batches(), "validation_steps": 3}
    if name == "same kind":
        made = globals()[source](structure)
        return {"validation_data": (made["x"], made["y"]) if "y" in made else made["x"]}
    if name == "dataset":
        return {"validation_data": Rows(data, shuffles=True, draws=True, number=12)}
    if name == "tf_data":
        import tensorflow as tf

        return {"validation_data": tf.data.Dataset.from_tensor_slices(data).shuffle(12, seed=3).batch(5)}
    more = {"validation_freq": 2} if name == "every_second_epoch" else {}
    return {"validation_data": data, "validation_batch_size": 5, **more}
