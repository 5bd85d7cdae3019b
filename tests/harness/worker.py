"""The program of a worker process: runs the functions that it receives, and sends their results back.

`python -m tests.harness.worker <descriptor> <devices>`. With devices > 0 it first imports abreast and asks for that many
simulated CPU devices, and joins the job of which it is a rank, if any. With 0 it is plain Keras, and refuses to answer once
abreast was imported.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from tests.harness import precision


def main(descriptor: int, devices: int) -> None:
    faulthandler.enable()  # a crash says where it was
    faulthandler.register(signal.SIGUSR1)  # a call that takes too long says where it is
    connection = Connection(descriptor)
    os.set_inheritable(descriptor, False)  # or the worker's own children would keep the connection open
    prepared = False
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            if "tensorflow" in sys.modules:
                _leave()
            return
        try:
            if not prepared:
                _prepare(devices)
                prepared = True
            answer: tuple[Any, ...] = ("value", _call(name, arguments))
            if not devices and "abreast" in sys.modules:
                raise AssertionError("the baseline process imported abreast")
        except BaseException as error:  # a SystemExit in a test body is an answer too
            kinds = [kind.__name__ for kind in type(error).__mro__]
            answer = ("error", kinds, str(error), traceback.format_exc())
        connection.send(answer)


def _leave() -> None:
    """End as Python does, but free nothing: after hundreds of tests, TensorFlow took over a minute to do so.

    No thread was left then, and the last garbage collection had begun.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(0)


def _prepare(devices: int) -> None:
    if devices:
        import abreast

        abreast.use_cpu_devices(devices)
        if "RANK" in os.environ:
            abreast.DataParallel()  # joins the job before a model is made, as `abreast run` does
    elif os.environ.get("KERAS_BACKEND") == "jax":
        _keep_losses()


def _keep_losses() -> None:
    """Mend Keras on JAX, which takes a layer's added loss for one of an earlier trace if Python reuses that one's id.

    `Layer._clear_losses` then drops it: in 1 of 399 traces of a model with two such layers. Ids of kept objects are not reused.
    """
    import keras

    plain, kept = keras.layers.Layer.add_loss, []

    @functools.wraps(plain)
    def add_loss(layer: Any, loss: Any) -> None:
        kept.append(loss)
        plain(layer, loss)

    keras.layers.Layer.add_loss = add_loss


def _call(name: str, arguments: Mapping[str, Any]) -> Any:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)(**arguments)
    finally:
        if "keras" in sys.modules:
            precision.put("float32")  # whatever the test chose, for the next one


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
