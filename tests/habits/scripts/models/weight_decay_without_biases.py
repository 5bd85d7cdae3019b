"""AdamW whose weight decay leaves some variables out, by name or as a list that changes between two fits."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.5)
optimizer.exclude_from_weight_decay(var_list=[model.layers[0].kernel])
model.compile(optimizer, "mse")
model.fit(x, y, epochs=2, batch_size=16, verbose=0)
optimizer.exclude_from_weight_decay(var_list=[model.layers[1].kernel], var_names=["bias"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
