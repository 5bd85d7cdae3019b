"""Layers under `tf.function` that make weights, count and add a loss, in a model that runs eagerly."""

BACKENDS = ("tensorflow",)
EXPECTED = {
    "tensorflow": "announced: weights that it made there do not train, and the state that it sets stays, and the losses"
}

from tests.habits.traced import train

result = train(run_eagerly=True)
