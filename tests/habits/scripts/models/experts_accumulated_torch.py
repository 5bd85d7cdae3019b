"""A mixture of experts that picks rows by their index, with accumulated gradients: plain Keras skips an expert without rows."""

BACKENDS = ("torch",)

import keras

from tests.habits import experts
from tests.habits.data import regression

x, y = regression(rows=72)
model = experts.model()
model.compile(keras.optimizers.Adam(0.05, gradient_accumulation_steps=3), "mse")
history = model.fit(x, y, epochs=3, batch_size=6, verbose=0)
result = {"model": model, "history": history}
