"""A step uses the optimizer with which a part of the model was compiled."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        return {"loss": self.descend(*data, self.body.optimizer)}


x, y = regression(rows=48)
model = Own()
model.body.compile(keras.optimizers.Adam(0.05))
model.compile()
model(x[:1])
model.body.optimizer.build(model.trainable_variables)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
