"""Optimizers of several kinds, one after another, with clipping, decay and averages."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
seen = []
for optimizer in (
    keras.optimizers.Adagrad(0.05, clipvalue=0.1),
    keras.optimizers.Adadelta(0.5, weight_decay=0.01),
    keras.optimizers.Nadam(0.01, clipnorm=0.3),
    keras.optimizers.Ftrl(0.05),
    keras.optimizers.Lion(0.001),
    keras.optimizers.Adafactor(0.01),
    keras.optimizers.Lamb(0.01, use_ema=True, ema_overwrite_frequency=2),
):
    model.compile(optimizer, "mse")
    seen += model.fit(x, y, batch_size=16, shuffle=False, verbose=0).history["loss"]
result = {"weights": model.get_weights(), "losses": seen}
TOLERANCE = 2e-3  # Lion takes the sign of numbers near 0, and Adadelta divides by small ones
