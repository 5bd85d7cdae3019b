"""KerasTuner's random search."""

NEEDS = ("keras_tuner",)

import keras
import keras_tuner

from tests.habits.data import regression

x, y = regression()


def build(hp):
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(hp.Int("width", 2, 8), "relu"), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(hp.Choice("rate", [0.1, 0.01])), "mse")
    return model


tuner = keras_tuner.RandomSearch(build, "val_loss", max_trials=3, seed=0, directory="tuner", project_name="a")
tuner.search(x, y, epochs=2, batch_size=16, validation_split=0.3, verbose=0)
best = tuner.get_best_models(1)[0]
result = {"values": str(tuner.get_best_hyperparameters()[0].values), "model": best.get_weights()}
