"""A step uses an optimizer that is a global of the script."""

EXPECTED = {"tensorflow": "refused: uses an optimizer"}
BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping

optimizer = keras.optimizers.SGD(0.05)


class Own(Stepping):
    def train_step(self, data):
        return {"loss": self.descend(*data, optimizer)}


x, y = regression(rows=48)
model = Own()
model.compile()
model(x[:1])
optimizer.build(model.trainable_variables)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
