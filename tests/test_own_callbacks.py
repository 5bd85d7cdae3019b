"""Which callbacks count as the user's own around batches."""

from __future__ import annotations

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
