"""A model whose `call` is the encoder alone: its step calls a head, and makes it there."""

EXPECTED = {"torch": "refused: is built inside a step"}
BACKENDS = ("tensorflow", "torch")

from tests.habits.with_head import train

result = train()
