"""multi_gpu_model of Keras 2: 32 rows over all devices together.

python examples/coming_from/multi_gpu_model_before.py weights.npz 96
"""

import sys

import keras
import numpy as np
from keras.utils import multi_gpu_model

output, rows = sys.argv[1], int(sys.argv[2])
x = np.random.default_rng(0).normal(size=(rows, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)

np.random.seed(1)
model = keras.models.Sequential([keras.layers.Dense(16, activation="relu", input_shape=(8,)), keras.layers.Dense(1)])
parallel = multi_gpu_model(model, gpus=2)
parallel.compile(keras.optimizers.SGD(0.05), "mse")
parallel.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0)
np.savez(output, *model.get_weights())  # the template, since the parallel model has its weights under other names
