"""Which callbacks count as the user's own around batches, and the threads that call them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.harness.client import Workers


def find_own_callbacks() -> dict[str, list[str]]:
    """In a worker: for each kind of argument, the names of the callbacks found."""
    import keras

    from abreast.feed.own_callbacks import acting_on_batches

    class Anneals(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None: ...

    class Validates(keras.callbacks.Callback):  # type: ignore[misc]
        def on_test_batch_begin(self, batch: int, logs: object = None) -> None: ...

    class LooksAtEpochs(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: object = None) -> None: ...

    class Stops(keras.callbacks.EarlyStopping):  # type: ignore[misc]
        def on_batch_end(self, batch: int, logs: object = None) -> None: ...

    kerass = [
        keras.callbacks.History(),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.ModelCheckpoint("never-written.keras", save_freq=1),
        keras.callbacks.LambdaCallback(on_epoch_end=print),
    ]
    batch_lambda = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    arguments = {
        "none": None,
        "one": Anneals(),
        "list": [*kerass, Anneals(), LooksAtEpochs(), Validates(), Stops(), batch_lambda],
        "of keras": kerass,
        "callback list": keras.callbacks.CallbackList([Anneals()], add_history=True),
    }
    return {name: [type(each).__name__ for each in acting_on_batches(value)] for name, value in arguments.items()}


def test_callbacks_of_the_user_that_act_on_batches_are_found(workers: Workers) -> None:
    assert workers.abreast.run(find_own_callbacks) == {
        "none": [],
        "one": ["Anneals"],
        "list": ["Anneals", "Validates", "Stops", "LambdaCallback"],
        "of keras": [],
        "callback list": ["Anneals"],
    }


def hooks_of_batches(devices: int) -> dict[str, Any]:
    """In a worker: the threads that call a hook of batches, and the batches in the order of the calls."""
    import keras
    import numpy as np

    import abreast

    class Notes(keras.callbacks.Callback):  # type: ignore[misc]
        async_safe = True  # it may be called beside the steps

        def __init__(self) -> None:
            super().__init__()
            self.threads: set[str] = set()
            self.batches: list[int] = []

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            self.threads.add(threading.current_thread().name)
            time.sleep(0.001 * (batch % 3))
            self.batches.append(batch)

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices)
    notes = Notes()
    model.fit(np.ones((160, 4)), np.ones((160, 1)), batch_size=4, verbose=0, callbacks=[notes])
    return {"threads": len(notes.threads), "batches": notes.batches, "left": left_threads()}


def left_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("abreast-callbacks")]


@pytest.mark.parametrize("devices", [1, 2])
def test_one_thread_calls_hooks_of_batches_in_their_order(workers: Workers, devices: int) -> None:
    found = workers.abreast.run(hooks_of_batches, devices=devices)
    assert found == {"threads": 1, "batches": [*range(40)], "left": []}


def hooks_without_a_model() -> list[str]:
    """In a worker with placed models: `CallbackList`s of the user's own loops, without a model of Keras."""
    import keras

    called: list[str] = []
    note = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: called.append("begin"))
    for model in (None, object()):
        callbacks = keras.callbacks.CallbackList([note], model=model)
        callbacks.on_train_begin()
        callbacks.on_train_batch_end(0, {"loss": 1.0})
        callbacks.on_train_end()
    return called


def test_a_callback_list_without_a_model_works(workers: Workers) -> None:
    workers.abreast.run(hooks_of_batches, devices=2)  # installs abreast's changes of Keras
    assert workers.abreast.run(hooks_without_a_model) == ["begin", "begin"]
