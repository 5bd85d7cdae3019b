"""LoRA: a trained model is fine-tuned through `enable_lora`."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
first = model.fit(x, y, epochs=1, batch_size=10, verbose=0)
for layer in model.layers:
    layer.enable_lora(rank=2)
model.compile("adam", "mse")
second = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "first": first, "second": second, "trainable": len(model.trainable_weights)}
