"""A dictionary of inputs, by the names of the layers, and of two outputs with weights of their losses."""

import keras

from tests.habits.data import classification, regression

a, value = regression()
b, label = classification(features=4)
left, right = keras.Input((6,), name="left"), keras.Input((4,), name="right")
both = keras.layers.concatenate([keras.layers.Dense(5, "relu")(left), keras.layers.Dense(5, "relu")(right)])
outputs = {"value": keras.layers.Dense(1, name="value")(both), "label": keras.layers.Dense(3, name="label")(both)}
model = keras.Model({"left": left, "right": right}, outputs)
losses = {"value": "mse", "label": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
model.compile("adam", losses, loss_weights={"value": 0.3, "label": 1.0}, metrics={"label": ["accuracy"]})
targets = {"value": value, "label": label}
history = model.fit({"left": a, "right": b}, targets, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history, "predict": model.predict({"left": a, "right": b}, verbose=0)}
