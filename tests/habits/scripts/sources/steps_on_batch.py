"""A loop of one's own over `train_on_batch` and `test_on_batch`."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
seen = []
for epoch in range(2):
    for start in range(0, 46, 10):
        seen.append(model.train_on_batch(x[start : start + 10], y[start : start + 10], return_dict=True))
    seen.append(model.test_on_batch(x[:7], y[:7], return_dict=True))
    model.reset_metrics()
result = {"model": model, "seen": seen, "predict": model.predict_on_batch(x[:3])}
