"""Softmax by TensorFlow's own function, and in a `call` under `tf.function`, with crossentropies of saturated outputs."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import classification


class Classes(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.scores = keras.layers.Dense(3)

    def build(self, shape):
        self.scores.build(shape)

    def call(self, inputs):
        return tf.nn.softmax(100 * self.scores(inputs))


class InAFunction(Classes):
    @tf.function
    def call(self, inputs):
        return super().call(inputs)


def loss(y_true, y_pred):
    return tf.reduce_sum(keras.losses.sparse_categorical_crossentropy(y_true, y_pred)) / 14


def train(layer):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), layer()])
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["sparse_categorical_crossentropy"])
    return model.fit(x, y, batch_size=14, epochs=2, shuffle=False, verbose=0).history


x, y = classification(rows=46)
result = {"plain": train(Classes), "in a function": train(InAFunction)}
