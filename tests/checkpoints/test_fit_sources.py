"""A `fit` that is interrupted in mid-epoch goes on with the batches that would have followed, for each kind of source."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import Workers

KINDS = {
    "arrays in batches": "",
    "data set": "",
    "data set that draws": "",
    "data set with threads": "",
    "generator": "",
    "generator beside a callback": "",
    "images": "cv2",
    "images by steps": "cv2",
    "loader": "torch",
    "tf.data": "tensorflow",
    "tf.data by steps": "tensorflow",
    "grain": "grain",
}


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_goes_on_with_the_batches_that_would_have_followed(workers: Workers, tmp_path: Path, kind: str) -> None:
    if KINDS[kind] and not find_spec(KINDS[kind]):
        pytest.skip(f"without {KINDS[kind]}")
    if kind == "tf.data by steps" and workers.backend == "tensorflow":
        pytest.skip("the epochs of a repeated data set that shuffles are not exact there, which a line says")
    plain = workers.abreast.run(train, kind=kind, data=str(tmp_path))
    interrupted_at = (3, 2) if kind == "images by steps" else (2, 4, 3)
    found = workers.abreast.run(train, kind=kind, data=str(tmp_path), interrupted_at=interrupted_at)
    assert found["weights"] == plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=1e-6)  # measured 2e-7 on PyTorch, once
    assert "fit begins with epoch" not in found["said"]  # the checkpoint says where


@pytest.mark.in_turn
def test_validations_read_a_generator_that_keeps_what_it_drew(workers: Workers, tmp_path: Path) -> None:
    plain = workers.abreast.run(validate_on_a_generator)
    assert workers.abreast.run(validate_on_a_generator, folder=str(tmp_path), interrupted_at=(4, 2, 5, 4)) == plain


def validate_on_a_generator(folder: str | None = None, interrupted_at: tuple[int, ...] = ()) -> list[float]:
    """In a worker: the losses of two fits that share a generator for validation, and the next random number."""
    import keras
    import numpy as np

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    x, options = _arrays()

    def rows() -> Any:
        while True:
            for start in np.random.permutation(5):
                yield x[start : start + 2], options["y"][start : start + 2]

    def once(number: int, interrupt: Interrupt) -> list[float]:
        keras.utils.set_random_seed(5)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 2)
        kept = [] if folder is None else [abreast.Checkpoint(folder, every=1)]
        shared, found = rows(), []
        for _ in range(2):
            found += model.fit(
                *(x, options["y"], 4, 3, 0, [interrupt, *kept]), validation_data=shared, validation_steps=3
            ).history["val_loss"]
        return [*found, np.random.random()]

    return until_it_ends(once, interrupted_at)


@pytest.mark.in_turn
@pytest.mark.parametrize("interrupted_at", [(9, 7, 7), (11, 1)], ids=["in epochs", "in a validation"])
def test_a_validation_goes_on_with_the_rows_that_would_have_followed(
    workers: Workers, tmp_path: Path, interrupted_at: tuple[int, ...]
) -> None:
    plain, interrupted = workers.abreast.run(validate, folder=str(tmp_path), interrupted_at=interrupted_at)
    assert plain == interrupted


def validate(folder: str, interrupted_at: tuple[int, ...]) -> list[list[float]]:
    """In a worker: losses of two fits, with and without ends; two data sets shuffle and draw from one generator."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Ends(Interrupt):
        def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.on_train_batch_begin(batch)

    def fit(number: int, *callbacks: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        source, held_out = _data_set(draws=True)[0], _data_set(draws=True)[0]
        held_out.generator = source.generator
        settings: dict[str, Any] = {"validation_data": held_out, "validation_steps": 3, "epochs": 2}
        losses: list[float] = []
        for _ in range(2):
            history = model.fit(source, callbacks=list(callbacks), verbose=0, **settings).history
            losses += [*history["loss"], *history["val_loss"]]
        return losses

    def checkpointed(number: int, interrupt: Interrupt) -> list[float]:
        return fit(number, Ends(interrupt.at), abreast.Checkpoint(folder, every=1))

    return [fit(0, Ends(None)), until_it_ends(checkpointed, interrupted_at)]


@pytest.mark.in_turn
def test_a_validation_that_is_longer_each_time_goes_on_to_its_end(workers: Workers, tmp_path: Path) -> None:
    if not find_spec("tensorflow"):
        pytest.skip("without tensorflow")
    plain, interrupted = workers.abreast.run(validate_until_it_ends, folder=str(tmp_path))
    assert plain == interrupted


def validate_until_it_ends(folder: str) -> list[list[float]]:
    """In a worker: losses on a data set whose length nobody knows, and how often it was read, with and without an end."""
    import keras
    import tensorflow as tf

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Longer(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, number: Any) -> None:
            super().__init__()
            self.number, self.read = number, 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.number.assign(2 * epoch + 1)

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            self.read += 1

    def fit(number: int, interrupt: Interrupt, *callbacks: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        x, options = _arrays(shuffle=False)
        most = tf.Variable(1, dtype="int64")
        held_out = tf.data.Dataset.from_tensor_slices((x, options["y"])).enumerate().filter(lambda i, row: i < most)
        held_out = held_out.map(lambda i, row: row).batch(1)
        longer = Longer(most)
        history = model.fit(
            x, epochs=4, validation_data=held_out, callbacks=[interrupt, longer, *callbacks], verbose=0, **options
        ).history
        return [*history["val_loss"], longer.read]

    def checkpointed(number: int, interrupt: Interrupt) -> list[float]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=1))

    return [fit(0, Interrupt(None)), until_it_ends(checkpointed, (9,))]


@pytest.mark.in_turn
def test_a_data_set_that_a_callback_evaluates_goes_on(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(evaluate_in_a_callback, folder=str(tmp_path))
    assert plain == interrupted


def evaluate_in_a_callback(folder: str) -> list[list[float]]:
    """In a worker: what a callback has seen on a data set of its own, and on that of the training, with and without ends."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Evaluates(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, trained: Any, own: Any) -> None:
            super().__init__()
            self.trained, self.own = trained, own
            self.seen: list[float] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seen += [self.model.evaluate(self.own, verbose=0), self.trained.generator.random()]

    def fit(number: int, interrupt: Interrupt, *callbacks: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        source = _data_set(draws=True)[0]
        evaluates = Evaluates(source, _data_set(draws=True)[0])
        model.fit(source, epochs=3, callbacks=[interrupt, evaluates, *callbacks], verbose=0)
        return evaluates.seen

    def checkpointed(number: int, interrupt: Interrupt) -> list[float]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=1))

    return [fit(0, Interrupt(None)), until_it_ends(checkpointed, (6, 5))]


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["arrays in batches", "data set with threads", "tf.data"])
def test_an_epoch_whose_steps_are_done_goes_on_with_its_validation(workers: Workers, tmp_path: Path, kind: str) -> None:
    if KINDS[kind] and not find_spec(KINDS[kind]):
        pytest.skip(f"without {KINDS[kind]}")
    plain = workers.abreast.run(train, kind=kind, data=str(tmp_path), validates=True)
    found = workers.abreast.run(train, kind=kind, data=str(tmp_path), interrupted_at=(None,), validates=True)
    assert found["weights"] == plain["weights"]


def test_a_process_with_rows_of_its_own_keeps_its_own_objects(workers: Workers) -> None:
    assert workers.abreast.run(per_host) == [{"order": [2, 1]}, {}]


def per_host() -> list[Any]:
    """In a worker: the attributes that ranks 0 and 1 would put back."""
    from types import SimpleNamespace

    from abreast.checkpoints.generators import Generators
    from abreast.checkpoints.place import Keeper, Moment, Place

    found = []
    for rank in (0, 1):
        processes = SimpleNamespace(rank=rank, size=2)
        feed: Any = SimpleNamespace(stage=SimpleNamespace(processes=processes), adapter=None)
        state = {"attributes": {"order": [2, 1]}}
        keeper = Keeper(feed, Generators(dict, lambda _: None))
        keeper.go_to(Place(Moment({}, state), None, state, 1, 1, None))
        assert keeper._due is not None and keeper._due.made is not None
        assert keeper._due.now == keeper._due.made.source
        found.append(keeper._due.now["attributes"])
    return found


def train(kind: str, data: str, interrupted_at: tuple[int | None, ...] = (), validates: bool = False) -> dict[str, Any]:
    """In a worker: losses of three epochs, the last weights and all lines of a run that is interrupted before so many steps.

    With None, it is interrupted in its first validation.
    """
    import io
    from contextlib import redirect_stderr

    import keras
    import numpy as np

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Draw(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            np.random.random()

    class InterruptValidation(keras.callbacks.Callback):  # type: ignore[misc]
        number = 0

        def on_test_begin(self, logs: Any = None) -> None:
            if self.number < len(interrupted_at):
                raise InterruptedError

        def get_state(self) -> int:
            return 0

        def set_state(self, state: int) -> None:
            pass

    beside = [Draw()] if kind == "generator beside a callback" else []

    def once(number: int, interrupt: Interrupt) -> dict[str, list[float]]:
        keras.utils.set_random_seed(5)
        source, options = _SOURCES[kind](data)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 2)
        if validates:
            options["validation_data"] = _arrays()[0][:2], _arrays()[1]["y"][:2]
            beside[:] = [InterruptValidation()]
            beside[0].number = number
        kept = [abreast.Checkpoint(f"{data}/kept", every=1)] if interrupted_at else []
        history = model.fit(source, epochs=3, callbacks=[interrupt, *beside, *kept], verbose=0, **options).history
        return {"loss": history["loss"], "weights": [float(np.sum(each)) for each in model.get_weights()]}

    with redirect_stderr(io.StringIO()) as said:
        return {**until_it_ends(once, interrupted_at), "said": said.getvalue()}


def _arrays(shuffle: Any = "batch") -> tuple[Any, dict[str, Any]]:
    import numpy as np

    x = (np.arange(22, dtype="float32").reshape(11, 2) - 11) / 11
    return x, {"y": x[:, :1] * x[:, 1:], "batch_size": 3, "shuffle": shuffle}


def _data_set(draws: bool = False, **settings: Any) -> tuple[Any, dict[str, Any]]:
    import keras
    import numpy as np

    x, options = _arrays()

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(**settings)
            self.order, self.generator = list(range(11)), np.random.default_rng(3)

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            rows = self.order[index * 3 : index * 3 + 3]
            return x[rows] + (np.float32(self.generator.random()) if draws else 0), options["y"][rows]

        def on_epoch_end(self) -> None:
            self.generator.shuffle(self.order)

    if settings:  # Keras keeps what workers have read for the next epoch, also beyond this hook
        del Rows.on_epoch_end
    return Rows(), {}


def _generator(draws_each_batch: bool = False) -> tuple[Any, dict[str, Any]]:
    import numpy as np

    x, options = _arrays()

    def rows() -> Any:
        while True:
            for start in np.random.permutation(4)[: 1 if draws_each_batch else 4] * 3:
                yield x[start : start + 3], options["y"][start : start + 3]

    return rows(), {"steps_per_epoch": 3}


def _images(data: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    import numpy as np

    import abreast
    from abreast.records import pack

    folder = Path(data) / "images.pack"
    if not folder.exists():
        pixels = np.random.default_rng(0).integers(0, 2, (11, 6, 6, 3), np.uint8)
        pack((pixels, np.arange(11) % 3), folder)
    return abreast.ImageRecords(folder, 3, size=4, seed=1), options


def _loader() -> tuple[Any, dict[str, Any]]:
    import torch

    torch.manual_seed(3)
    x, options = _arrays()
    held = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(options["y"]))
    return torch.utils.data.DataLoader(held, 3, shuffle=True), {}


def _tf_data(**options: Any) -> tuple[Any, dict[str, Any]]:
    import tensorflow as tf

    x, arrays = _arrays()
    rows = tf.data.Dataset.from_tensor_slices((x, arrays["y"])).shuffle(6).batch(3)
    return (rows.repeat() if options else rows), options


def _grain() -> tuple[Any, dict[str, Any]]:
    import grain

    x, options = _arrays()
    rows = list(zip(x, options["y"], strict=True))
    return grain.MapDataset.source(rows).seed(3).shuffle().batch(3).to_iter_dataset(), {}


_SOURCES: dict[str, Callable[[str], tuple[Any, dict[str, Any]]]] = {
    "arrays in batches": lambda _: _arrays(),
    "data set": lambda _: _data_set(),
    "data set that draws": lambda _: _data_set(draws=True),
    "data set with threads": lambda _: _data_set(workers=2),
    "generator": lambda _: _generator(),
    "generator beside a callback": lambda _: _generator(draws_each_batch=True),
    "images": lambda data: _images(data),
    "images by steps": lambda data: _images(data, steps_per_epoch=2),
    "loader": lambda _: _loader(),
    "tf.data": lambda _: _tf_data(),
    "tf.data by steps": lambda _: _tf_data(steps_per_epoch=3),
    "grain": lambda _: _grain(),
}
