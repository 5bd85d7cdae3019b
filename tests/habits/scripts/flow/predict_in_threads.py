"""A pool of threads predicts with one model, as a small server does."""

from concurrent.futures import ThreadPoolExecutor

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX reads arrays that a step has used up

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=16, verbose=0)
model.predict(x[:8], verbose=0)
with ThreadPoolExecutor(3) as pool:
    answers = list(pool.map(lambda start: model.predict_on_batch(x[start : start + 8]), range(0, 40, 8)))
result = answers
