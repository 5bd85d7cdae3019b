"""Crossentropies of a softmax whose outputs are nearly 0 or 1, in a loss and a metric; and `from_logits=True` by mistake."""

import keras
from keras import ops

from tests.habits.data import classification


class OfKnownClasses(keras.losses.Loss):
    def __init__(self, from_logits):
        super().__init__()
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=self.from_logits)
        known = ops.cast(y_true > 0, "float32")
        return ops.sum(losses * known) / (1 + ops.sum(known))


def train(scale, from_logits, activation="softmax"):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Rescaling(scale), keras.layers.Dense(3, activation=activation)]
    )
    model.compile(keras.optimizers.SGD(0.1), OfKnownClasses(from_logits), metrics=["sparse_categorical_crossentropy"])
    return model.fit(x, y, batch_size=14, epochs=2, shuffle=False, verbose=0).history


x, y = classification(rows=46)
result = {
    "saturated": train(100, from_logits=False),
    "twice": train(1, from_logits=True),
    "by an operation": train(100, from_logits=False, activation=lambda logits: ops.softmax(logits)),
}
