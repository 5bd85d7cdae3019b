"""A `train_step` with Adam of PyTorch, whose state is taken after a fit, without a copy, and given back after the next one."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        self.adam.zero_grad()
        loss = ((self(x, training=True) - y) ** 2).mean()
        loss.backward()
        self.adam.step()
        return {"loss": loss}


x, y = regression(rows=64)
model = Own()
model(x[:1])
model.adam = torch.optim.Adam([variable.value for variable in model.trainable_variables], lr=0.1)
model.compile()
histories = [model.fit(x, y, batch_size=16, shuffle=False, verbose=0)]
state = model.adam.state_dict()
histories.append(model.fit(x, y, batch_size=16, shuffle=False, verbose=0))
model.adam.load_state_dict(state)
histories.append(model.fit(x, y, batch_size=16, shuffle=False, verbose=0))
result = {"histories": histories, "model": model}
