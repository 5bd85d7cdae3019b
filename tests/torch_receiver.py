"""Loads the PyTorch models that `torch_sender.py` sends, and trains them on: the process that knows none of its classes."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any


def take_part(model: Any, x: Any, y: Any) -> list[Any]:
    """Everything that sender and receiver compare, after three more steps."""
    results = [model.predict(x, verbose=0)]
    results += [model.train_on_batch(x, y, return_dict=True) for _ in range(3)]
    results += [model.evaluate(x, y, verbose=0, return_dict=True)]
    results += [[v.numpy() for v in model.variables], [v.numpy() for v in model.optimizer.variables]]
    results += [len(model.trainable_variables), len({id(v.value) for v in model.variables})]
    return results


def main() -> None:
    """Serve one folder per line of the standard input; answer each with a line."""
    from abreast.backend.torch.unpickle_model import load_model_and

    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        model = load_model_and((folder / "model").read_bytes())[0]
        x, y = pickle.loads((folder / "data").read_bytes())
        model._ran_in_receiver = True
        (folder / "result").write_bytes(pickle.dumps(take_part(model, x, y)))
        print("done", flush=True)


if __name__ == "__main__":
    main()
