"""scikit-learn's cross validation over `KerasClassifier`."""

NEEDS = ("sklearn",)

import keras
from keras.wrappers import SKLearnClassifier
from sklearn.model_selection import cross_val_score

from tests.habits.data import classification


def make(X, y, width=8):
    model = keras.Sequential(
        [keras.Input(X.shape[1:]), keras.layers.Dense(width, "relu"), keras.layers.Dense(3, "softmax")]
    )
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return model


x, y = classification()
wrapped = SKLearnClassifier(make, model_kwargs={"width": 5}, fit_kwargs={"epochs": 2, "batch_size": 10, "verbose": 0})
scores = cross_val_score(wrapped, x, y, cv=2)
wrapped.fit(x, y)
result = {"scores": scores, "model": wrapped.model_}
