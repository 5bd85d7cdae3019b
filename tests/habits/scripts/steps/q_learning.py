"""Q-learning: `predict` and `fit` on a few rows by turns, a hundred times fewer than a user would."""

import keras
import numpy as np

rng = np.random.default_rng(0)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adam(0.01), keras.losses.Huber())
target = keras.models.clone_model(model)
target.set_weights(model.get_weights())
losses = []
for episode in range(6):
    states, after = rng.normal(size=(2, 9, 4)).astype("float32")
    actions, rewards = rng.integers(0, 2, 9), rng.normal(size=9)
    values = model.predict_on_batch(states)
    values[np.arange(9), actions] = rewards + 0.9 * target.predict(after, verbose=0).max(axis=1)
    losses += model.fit(states, values, epochs=1, verbose=0).history["loss"]
    if episode % 3 == 2:
        target.set_weights(model.get_weights())
result = {"model": model, "losses": losses}
