"""With `run_eagerly`, a step counts the kinds of its rows in a table of TensorFlow, and weights them by their counts."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: uses an iterator, a table or a queue of TensorFlow"}

from tests.habits.counting import train

result = train(run_eagerly=True)
