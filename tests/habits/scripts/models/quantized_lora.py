"""QLoRA: a quantized model learns through LoRA."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, epochs=1, batch_size=10, verbose=0)
model.quantize("int8")
for layer in model.layers:
    layer.enable_lora(2)
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"history": history, "predict": model.predict(x, verbose=0)}
TOLERANCE = 2e-2  # int8 rounds activations: what differs by rounding may fall on the next of 127 levels
