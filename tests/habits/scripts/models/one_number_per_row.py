"""An output of one axis, which is that of the rows: losses that work along the last axis work along the batch."""

import keras

from tests.habits.data import regression

x, y = regression()
y = abs(y[:, 0]).clip(0, 1)
seen = {}
for loss in ("mse", "kl_divergence", "categorical_hinge", "cosine_similarity", "binary_crossentropy"):
    inputs = keras.Input((6,))
    scores = keras.layers.Flatten()(keras.layers.Dense(1, "sigmoid")(inputs))
    model = keras.Model(inputs, keras.layers.Lambda(lambda scores: scores[:, 0])(scores))
    model.compile(keras.optimizers.SGD(0.01), loss, metrics=["mae", "kl_divergence"])
    for weights in (None, x[:, 0] ** 2):
        history = model.fit(x, y, sample_weight=weights, batch_size=10, shuffle=False, verbose=0)
        seen[f"{loss} {weights is None}"] = history
result = {"model": model, "seen": seen}
