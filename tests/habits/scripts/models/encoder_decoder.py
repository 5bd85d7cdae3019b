"""A sequence-to-sequence model; a second model that shares its layers decodes word by word."""

import keras
import numpy as np
from keras import layers

from tests.habits.data import tokens

ids, _ = tokens()
source, target = keras.Input((None,)), keras.Input((None,))
_, state = layers.GRU(6, return_state=True)(layers.Embedding(20, 5)(source))
decoder = layers.GRU(6, return_sequences=True, return_state=True)
embed, head = layers.Embedding(20, 5), layers.Dense(20, "softmax")
hidden, _ = decoder(embed(target), initial_state=state)
model = keras.Model([source, target], head(hidden))
model.compile("rmsprop", "sparse_categorical_crossentropy")
history = model.fit([ids, np.roll(ids, 1, axis=1)], ids, epochs=2, batch_size=8, verbose=0)
encoder = keras.Model(source, state)
given = keras.Input((6,))
hidden, after = decoder(embed(target), initial_state=given)
step = keras.Model([target, given], [head(hidden), after])
word, memory, said = np.ones((3, 1), "int32"), encoder.predict(ids[:3], verbose=0), []
for _ in range(3):
    scores, memory = step.predict([word, memory], verbose=0)
    word = scores[:, -1:].argmax(-1)
    said.append(word)
result = {"model": model, "history": history, "said": said}
