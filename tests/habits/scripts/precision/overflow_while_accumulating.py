"""Loss scaling and gradient accumulation: a step that would change the weights overflows."""

import keras
import numpy as np

from tests.habits.data import regression

x, y = regression(rows=47)
x[20, 0] = np.inf
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
inner = keras.optimizers.SGD(0.01, momentum=0.9, gradient_accumulation_steps=3)
model.compile(keras.optimizers.LossScaleOptimizer(inner, initial_scale=1024.0, dynamic_growth_steps=3), "mse")
model.fit(x, y, epochs=2, batch_size=9, verbose=0, shuffle=False)
result = {"model": model}
