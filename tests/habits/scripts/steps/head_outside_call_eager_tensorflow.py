"""A model whose `call` is the encoder alone: its step calls a head, makes it there, and runs eagerly."""

EXPECTED = {"tensorflow": "refused: is built inside a step"}
BACKENDS = ("tensorflow",)

from tests.habits.with_head import train

result = train(run_eagerly=True)
