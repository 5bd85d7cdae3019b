"""KerasTuner's Hyperband with a class of one's own that chooses the batch size."""

NEEDS = ("keras_tuner",)

import keras
import keras_tuner

from tests.habits.data import regression

x, y = regression()


class Hyper(keras_tuner.HyperModel):
    def build(self, hp):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(hp.Choice("width", [2, 6]), "relu")])
        model.add(keras.layers.Dense(1))
        model.compile("sgd", "mse")
        return model

    def fit(self, hp, model, *args, **kwargs):
        return model.fit(*args, batch_size=hp.Choice("batch", [8, 16]), **kwargs)


tuner = keras_tuner.Hyperband(Hyper(), "val_loss", max_epochs=3, factor=3, seed=0, directory="tuner", project_name="b")
tuner.search(x, y, validation_split=0.3, verbose=0)
result = {"values": str(tuner.get_best_hyperparameters()[0].values)}
