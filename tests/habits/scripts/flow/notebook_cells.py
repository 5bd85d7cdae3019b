"""Cells of a notebook: classes are defined again, the model stays, a cell is run twice."""

import __main__

CELLS = (
    """
import keras
from tests.habits.data import regression
x, y = regression()
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, inputs):
        return self.dense(inputs)
model = Net()
""",
    """
def loss(y_true, y_pred):
    return keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)
model.compile("sgd", loss)
first = model.fit(x, y, batch_size=16, verbose=0)
""",
    """
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, inputs):
        return keras.ops.tanh(self.dense(inputs))
def loss(y_true, y_pred):
    return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)
""",
    "model.compile('sgd', loss); second = model.fit(x, y, batch_size=16, verbose=0)",
    "model = Net(); model.compile('sgd', loss); third = model.fit(x, y, batch_size=16, verbose=0)",
)
for number in (0, 1, 2, 3, 4, 4):
    exec(compile(CELLS[number], f"<cell {number}>", "exec"), __main__.__dict__)
result = {name: getattr(__main__, name) for name in ("model", "first", "second", "third")}
