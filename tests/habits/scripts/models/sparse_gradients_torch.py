"""Embeddings of PyTorch with `sparse=True`, in a module and in a layer's own call."""

BACKENDS = ("torch",)

import keras
import torch
from keras import layers

from tests.habits.data import tokens


class Words(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(8, 6), name="table")

    def call(self, ids):
        return torch.nn.functional.embedding(ids.long(), self.table.value, sparse=True)

    def compute_output_shape(self, shape):
        return (*shape, 6)


x, y = tokens(rows=46, length=4)
inputs = keras.Input((4,), dtype="int32")
module = torch.nn.Embedding(8, 6, sparse=True)
with torch.no_grad():
    module.weight.copy_(torch.linspace(-1, 1, 8 * 6).reshape(8, 6))
hidden = layers.TorchModuleWrapper(module, output_shape=(None, 4, 6))(inputs) + Words()(inputs)
model = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(hidden)))
model.compile("sgd", "mse")
history = model.fit(x % 8, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
