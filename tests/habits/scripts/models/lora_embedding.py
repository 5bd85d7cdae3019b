"""LoRA on an embedding, saved and loaded."""

import keras

from tests.habits.data import tokens

ids, y = tokens()
embedding = keras.layers.Embedding(20, 6)
model = keras.Sequential([keras.Input((7,)), embedding, keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])
model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
embedding.enable_lora(2)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
history = model.fit(ids, y[:, None], epochs=2, batch_size=8, verbose=0)
model.save("lora.keras")
loaded = keras.models.load_model("lora.keras")
result = {"model": model, "history": history, "predict": loaded.predict(ids, verbose=0)}
