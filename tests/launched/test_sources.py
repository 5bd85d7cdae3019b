"""Sources under several processes: read in part, or with rows of each process's own, they train what one process trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import result, start, start_all

BACKENDS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("jax", "tensorflow", "torch")]

pytestmark = pytest.mark.usefixtures("all_frameworks")  # some need several; and jobs must train with all there

_HEAD = """
import json, os, sys
from contextlib import nullcontext
alone, rank = "RANK" not in os.environ, int(os.environ.get("RANK", "0"))
import abreast
from abreast.errors import AbreastError
scope = nullcontext() if alone else abreast.DataParallel(source=sys.argv[1])
import keras
import numpy as np
def seed():  # what shuffles: `keras.utils.set_random_seed` takes seconds to import TensorFlow
    of_framework = {"jax": np.random.seed, "torch": lambda number: __import__("torch").manual_seed(number)}
    of_framework.get(keras.backend.backend(), keras.utils.set_random_seed)(1)
def made(*layers):
    seed()
    with scope:
        last = keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=1))
        model = keras.Sequential([*layers, last])
        model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
    return model
draws = np.random.default_rng(0)
x, y = draws.normal(size=(97, 4)).astype("float32"), draws.normal(size=(97, 1)).astype("float32")
found = {}
"""

# Each process gives rows of its own: 60 and 37, in batches of 16. The one process gets what they are together.
_OWN = (
    _HEAD
    + """
class Batches(keras.utils.PyDataset):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches
    def __len__(self):
        return len(self.batches)
    def __getitem__(self, index):
        return self.batches[index]
def cut(rows, number):
    return [tuple(each[i : i + number] for each in rows) for i in range(0, len(rows[0]), number)]
def joined(parts, number):
    batches = [cut(rows, number) for rows in parts]
    steps = [[each[i] for each in batches if i < len(each)] for i in range(max(map(len, batches)))]
    return [tuple(map(np.concatenate, zip(*step))) for step in steps]
train, held = [(x[:60], y[:60]), (x[60:], y[60:])], [(x[:20], y[:20]), (x[20:45], y[20:45])]
model = made(keras.Input((4,)), keras.layers.BatchNormalization())
if alone:
    fit = model.fit(
        Batches(joined(train, 16)), epochs=2, shuffle=False, verbose=0, validation_data=Batches(joined(held, 16))
    )
    scores = model.evaluate(Batches(joined(held, 16)), verbose=0)
else:
    fit = model.fit(
        *train[rank], batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=held[rank], validation_batch_size=16
    )
    scores = model.evaluate((each for each in cut(held[rank], 16)), verbose=0)
found["predicted"] = model.predict(x if alone else train[rank][0], batch_size=16, verbose=0).tolist()
found["fit"] = [fit.history, scores, [weight.tolist() for weight in model.get_weights()]]
both = joined([(each[0][:3], each[1][:3]) for each in train], 3)[0]
found["on batch"] = [float(each) for each in model.train_on_batch(*(both if alone else (train[rank][0][:3], train[rank][1][:3])))]
if not alone:
    try:
        made(keras.Input((4,))).fit(x, y, verbose=0)
    except AbreastError as error:
        found["same rows"] = str(error)
print(json.dumps(found))
"""
)

# Every process has the whole data: shuffled arrays, and images of which it decodes its own rows only.
_PARTS = (
    _HEAD
    + """
model = made(keras.Input((4,)))
fit = model.fit(x[:33], y[:33], batch_size=16, epochs=2, verbose=0, validation_split=0.2)
found["arrays"] = [fit.history, [weight.tolist() for weight in model.get_weights()]]
found["predicted"] = model.predict(x[:33], batch_size=16, verbose=0).tolist()
of_rank_0 = abreast.predict_on_rank_0(model, x[:33], batch_size=16, verbose=0)
assert (of_rank_0 is None) == (rank > 0)
found["of rank 0"] = found["predicted"] if of_rank_0 is None else of_rank_0.tolist()
records = abreast.ImageRecords(sys.argv[2], 4, size=32, seed=1, num_workers=int(sys.argv[3]))
model = made(keras.Input((32, 32, 3)), keras.layers.Rescaling(1 / 255), keras.layers.AveragePooling2D(8), keras.layers.Flatten())
painted = [0]
plain = records._assembly.start
def start(numbers, *arguments, **settings):
    painted[0] += len(numbers)
    return plain(numbers, *arguments, **settings)
records._assembly.start = start
fit = model.fit(records, epochs=2, verbose=0)
found["images"] = [fit.history, [weight.tolist() for weight in model.get_weights()]]
found["painted"] = painted[0]
records.close()
print(json.dumps(found))
"""
)
# Every process has the whole data, whose rows depend on their index alone.
_BY_INDEX = (
    _HEAD
    + """
import grain, torch
class Rows(torch.utils.data.Dataset):
    abreast_by_index = True
    asked = 0
    def __len__(self):
        return len(x)
    def __getitem__(self, index):
        self.asked += 1
        return x[index], y[index]
def fitted(source, name):
    model = made(keras.Input((4,)), keras.layers.BatchNormalization())
    torch.manual_seed(1 + rank)  # only rank 0's shuffle counts
    fit = model.fit(source, epochs=2, verbose=0, validation_data=source)
    found[name] = [fit.history, model.predict(source, verbose=0).tolist(), [weight.tolist() for weight in model.get_weights()]]
rows = Rows()
fitted(torch.utils.data.DataLoader(rows, batch_size=32, shuffle=True), "loader")
found["asked"] = rows.asked
numbers = grain.MapDataset.range(97).seed(1).shuffle().random_map(lambda i, draws: (x[i] + draws.random(), y[i]))
fitted(numbers.map(lambda row: (np.float32(row[0]), row[1])).batch(32), "grain")
print(json.dumps(found))
"""
)
_PACK = """
import sys
import numpy as np
from abreast.records import pack
pack((np.random.default_rng(0).integers(0, 256, (11, 40, 40, 3), np.uint8), np.arange(11) / 11), sys.argv[1])
print(0)
"""


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_that_give_rows_of_their_own_train_what_one_trains_on_all(backend: str) -> None:
    skip_unless_installed(backend)
    jobs = (start(_OWN, None, 0, 1, "", backend=backend), *start_all(_OWN, 2, "per-host", backend=backend))
    alone, *ranks = [result(each) for each in jobs]
    for rank, found in enumerate(ranks):
        assert found.pop("same rows").startswith("ranks 0 and 1 give the same rows, which would count twice")
        own = slice(60) if rank == 0 else slice(60, 97)
        assert largest_difference(found["predicted"], alone["predicted"][own]) < 1e-5
        for name in ("fit", "on batch"):
            assert largest_difference(found[name], alone[name]) < 1e-5, (rank, name)  # measured 2.4e-7


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_that_read_their_own_rows_train_what_one_trains(backend: str, tmp_path: Path) -> None:
    skip_unless_installed(backend)
    result(start(_PACK, None, 0, 1, str(tmp_path / "pack"), backend=backend))
    words = (str(tmp_path / "pack"), "0")
    jobs = (
        start(_PARTS, None, 0, 1, "", *words, backend=backend),
        *start_all(_PARTS, 2, "global", *words, backend=backend),
    )
    alone, *ranks = [result(each) for each in jobs]
    # Of batches of 4, 4 and 3 rows, rank 0 has 6 and rank 1 has 5, twice. What Keras reads to build a model is read again.
    painted = [found.pop("painted") for found in ranks]
    assert painted in ([12, 10], [18, 15]), painted
    for found in ranks:
        for name in ("arrays", "predicted", "of rank 0", "images"):
            assert largest_difference(found[name], alone[name]) < 1e-5, name


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_that_read_rows_by_their_index_train_what_one_trains(backend: str) -> None:
    skip_unless_installed(backend)
    jobs = (start(_BY_INDEX, None, 0, 1, "", backend=backend), *start_all(_BY_INDEX, 2, "global", backend=backend))
    alone, *ranks = [result(each) for each in jobs]
    asked = alone.pop("asked")
    for found in ranks:
        assert found.pop("asked") < asked * 0.8  # Keras looks at some batches first
        for name in found:
            assert largest_difference(found[name], alone[name]) < 1e-5, name
