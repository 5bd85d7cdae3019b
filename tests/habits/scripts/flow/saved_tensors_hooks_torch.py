"""A context of `saved_tensors_hooks` around `fit`, as for activations kept on the CPU; it rounds what the backward pass reads."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: worker processes do not have the script's hooks for saved tensors"}

import keras
import torch

from tests.habits.data import regression


def pack(tensor):
    return tensor.bfloat16().float() if tensor.dtype == torch.float32 else tensor


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
