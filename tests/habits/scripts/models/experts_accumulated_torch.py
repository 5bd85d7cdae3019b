"""A mixture of experts in PyTorch's own operations, with accumulated gradients: plain Keras skips an expert without rows."""

BACKENDS = ("torch",)

import keras
import torch
from keras import layers

from tests.habits import experts
from tests.habits.data import regression


class Experts(experts.Experts):
    def call(self, inputs):
        gates = torch.softmax(inputs @ self.gates.value, -1)
        chosen = gates.argmax(-1)
        outputs = inputs.new_zeros((inputs.shape[0], 4))
        for index, kernel in enumerate(self.kernels):
            rows = torch.nonzero(chosen == index).flatten()
            if len(rows):
                outputs = outputs.index_add(0, rows, gates[rows, index, None] * (inputs[rows] @ kernel.value))
        return outputs


x, y = regression(rows=72)
model = keras.Sequential([keras.Input((6,)), Experts(), layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.05, gradient_accumulation_steps=3), "mse")
history = model.fit(x, y, epochs=3, batch_size=6, verbose=0)
result = {"model": model, "history": history}
