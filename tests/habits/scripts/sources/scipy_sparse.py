"""A SciPy sparse matrix of word counts; where plain Keras takes one."""

BACKENDS = ("jax", "tensorflow")
NEEDS = ("scipy",)

import keras
import numpy as np
import scipy.sparse

rng = np.random.default_rng(0)
counts = scipy.sparse.random(40, 12, density=0.3, format="csr", random_state=0, dtype="float32")
y = rng.normal(size=(40, 1)).astype("float32")
model = keras.Sequential([keras.Input((12,), sparse=True), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(counts, y, epochs=2, batch_size=10, shuffle=False, verbose=0)
result = {"model": model, "history": history}
