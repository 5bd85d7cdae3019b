"""A small residual network with BatchNormalization, L2 and a cosine schedule."""

import keras
from keras import layers

from tests.habits.data import images


def block(x, width):
    out = layers.Conv2D(width, 3, padding="same", use_bias=False, kernel_regularizer="l2")(x)
    out = layers.BatchNormalization()(out)
    return layers.add([layers.ReLU()(out), layers.Conv2D(width, 1)(x)])


x, y = images()
inputs = keras.Input((8, 8, 1))
hidden = layers.GlobalAveragePooling2D()(block(block(inputs, 4), 6))
model = keras.Model(inputs, layers.Dense(3, "softmax")(hidden))
rate = keras.optimizers.schedules.CosineDecay(0.05, 6)
model.compile(
    keras.optimizers.SGD(rate, momentum=0.9, nesterov=True), "sparse_categorical_crossentropy", metrics=["accuracy"]
)
history = model.fit(x, y, epochs=2, batch_size=10, validation_split=0.2, verbose=0)
result = {"model": model, "history": history, "evaluate": model.evaluate(x, y, verbose=0)}
