"""A grid search by hand: width times learning rate, the best one trained on."""

import keras

from tests.habits.data import regression

x, y = regression()
best, lowest, losses = None, float("inf"), []
for width in (2, 8):
    for rate in (0.1, 0.001):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(width, "relu"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(rate), "mse")
        history = model.fit(x, y, epochs=2, batch_size=16, validation_split=0.3, verbose=0)
        losses.append(history.history["val_loss"][-1])
        if losses[-1] < lowest:
            best, lowest = model, losses[-1]
best.fit(x, y, batch_size=16, verbose=0)
result = {"best": best, "losses": losses}
