"""Losses of several kinds, one after another: focal, Huber, KL, cosine, Poisson, hinge, Dice, Tversky, sum."""

import keras

from tests.habits.data import classification

x, y = classification()
targets = keras.utils.to_categorical(y, 3)
losses = [
    keras.losses.CategoricalFocalCrossentropy(),
    keras.losses.Huber(0.3),
    keras.losses.KLDivergence(),
    keras.losses.CosineSimilarity(),
    keras.losses.CategoricalHinge(),
    keras.losses.Dice(),
    keras.losses.Tversky(),
    keras.losses.LogCosh(reduction="sum"),
]
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, "softmax")])
seen = []
for loss in losses:
    model.compile(keras.optimizers.SGD(0.01), loss)
    seen += model.fit(x, targets, batch_size=23, shuffle=False, verbose=0).history["loss"]
result = {"model": model, "losses": seen}
