"""Layers under `tf.function` make weights, count in a weight and add a loss; Keras traces them to build the model."""

BACKENDS = ("tensorflow",)
EXPECTED = {
    "tensorflow": "announced: weights that it made there do not train, and the state that it sets stays, and the losses"
}

from tests.habits.traced import train

result = train(run_eagerly=False)
