"""Keras's `Distiller`, which is a model with a `compute_loss` of its own, for outputs and for features."""

import keras
from keras import layers

from tests.habits.data import classification


def network(units, name):
    hidden = layers.Dense(units, "tanh", name="hidden")
    return keras.Sequential([keras.Input((6,)), hidden, layers.Dense(3, "softmax")], name=name)


x, y = classification(rows=46)
result = {}
for kind in (
    keras.distillation.LogitsDistillation(temperature=3.0),
    keras.distillation.FeatureDistillation("mse", teacher_layer_name="hidden", student_layer_name="hidden"),
):
    distiller = keras.distillation.Distiller(
        network(5, "teacher"), network(5, "student"), kind, student_loss_weight=0.3
    )
    distiller.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = distiller.fit(x, y, batch_size=10, epochs=2, verbose=0, validation_data=(x[:13], y[:13]))
    scores = distiller.evaluate(x, y, verbose=0, return_dict=True)
    result[type(kind).__name__] = [history, scores, distiller.student, distiller.predict(x, verbose=0)]
