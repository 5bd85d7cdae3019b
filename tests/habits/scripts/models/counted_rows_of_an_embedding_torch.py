"""An embedding of PyTorch scales its gradients by how often the batch has a word."""

BACKENDS = ("torch",)

import keras
import torch
from keras import layers

from tests.habits.data import tokens

x, y = tokens(rows=46, length=4)
inputs = keras.Input((4,), dtype="int32")
words = layers.TorchModuleWrapper(torch.nn.Embedding(64, 6, scale_grad_by_freq=True), output_shape=(None, 4, 6))
model = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(words(inputs))))
words.module.weight.data.copy_(torch.linspace(-1, 1, 64 * 6).reshape(64, 6))
model.compile("sgd", "mse")
history = model.fit(x % 8, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
