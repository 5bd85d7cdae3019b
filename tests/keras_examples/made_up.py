"""Small made-up data in the place of the data sets that Keras's examples download: the shapes and types, and nothing else.

Files are written to the current folder, under the names that the examples look for. Imports no framework.
"""

from __future__ import annotations

import json
import os
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NUM_TRAIN, NUM_TEST = 150, 60
_WORDS = [
    "the",
    "a",
    "one",
    "some",
    "every",
    "old",
    "young",
    "red",
    "green",
    "good",
    "bad",
    "small",
    "great",
    "film",
    "story",
    "actor",
    "scene",
    "plot",
    "house",
    "river",
    "road",
    "cat",
    "dog",
    "bird",
    "tree",
    "runs",
    "walks",
    "sees",
    "likes",
    "finds",
    "never",
    "always",
    "today",
    "here",
    "there",
    "quickly",
    "slowly",
    "and",
    "or",
    "with",
    "without",
    "under",
    "sat",
    "on",
    "mat",
]


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def images(height: int, channels: int, num_classes: int) -> Callable[..., Any]:
    """A `load_data` of (images, labels) for training and testing; every class has rows."""

    def load_data(*_: Any, **__: Any) -> Any:
        shape = (height, height) if channels == 1 else (height, height, channels)

        def part(rows: int, seed: int) -> tuple[Any, Any]:
            labels = (np.arange(rows) % num_classes).astype("uint8")
            noise = random(seed).integers(0, 128, (rows, *shape))
            x = (noise + labels.reshape(-1, *[1] * len(shape)) * (127 // num_classes)).astype("uint8")
            return x, labels if channels == 1 else labels[:, None]

        return part(NUM_TRAIN, 1), part(NUM_TEST, 2)

    return load_data


def reviews(num_words: int = 2000, **_: Any) -> Any:
    """`keras.datasets.imdb.load_data`: lists of word numbers."""

    def part(rows: int, seed: int) -> tuple[Any, Any]:
        draw = random(seed)
        x = np.empty(rows, object)
        x[:] = [draw.integers(1, num_words, draw.integers(20, 60)).tolist() for _ in range(rows)]
        return x, draw.integers(0, 2, rows)

    return part(NUM_TRAIN, 1), part(NUM_TEST, 2)


def houses(*_: Any, **__: Any) -> Any:
    """`keras.datasets.boston_housing.load_data`."""
    draw = random()
    return tuple((draw.normal(size=(rows, 13)), draw.normal(size=rows) + 20) for rows in (NUM_TRAIN, NUM_TEST))


def sentence(draw: np.random.Generator, num_words: int = 8) -> str:
    return " ".join(draw.choice(_WORDS, num_words))


# Files, by a part of the name or address that an example asks for.


def text_file(path: Path) -> None:
    draw = random()
    path.write_text(". ".join(sentence(draw) for _ in range(60)))


def _pairs() -> str:
    draw = random()
    return "".join(f"{sentence(draw, 4).capitalize()}.\t{sentence(draw, 5)}\n" for _ in range(200))


def french(path: Path) -> None:
    (path.parent / "fra.txt").write_text("".join(f"{line}\tnone\n" for line in _pairs().splitlines()))
    path.touch()


def spanish(path: Path) -> None:
    (path.parent / "spa-eng").mkdir(exist_ok=True)
    (path.parent / "spa-eng" / "spa.txt").write_text(_pairs())
    path.touch()


def moving_digits(path: Path) -> None:
    np.save(path, random().integers(0, 255, (20, 12, 16, 16)).astype("uint8"))


def ratings(path: Path) -> None:
    folder = path.parent / "ml-latest-small"
    folder.mkdir(exist_ok=True)
    draw = random()
    rows = [f"{draw.integers(1, 30)},{draw.integers(1, 50)},{draw.integers(1, 11) / 2},0" for _ in range(300)]
    (folder / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *rows]) + "\n")
    movies = [f"{number},Film {number},Drama|Comedy" for number in range(1, 51)]
    (folder / "movies.csv").write_text("\n".join(["movieId,title,genres", *movies]) + "\n")
    path.touch()


def weather(path: Path) -> None:
    names = "p (mbar),T (degC),Tpot (K),Tdew (degC),rh (%),VPmax (mbar),VPact (mbar),VPdef (mbar),sh (g/kg),"
    names += "H2OC (mmol/mol),rho (g/m**3),wv (m/s),max. wv (m/s),wd (deg)"
    values = random().normal(size=(6000, 14)).cumsum(0)
    rows = [f"01.01.2009 00:00:00,{','.join(f'{value:.3f}' for value in row)}" for row in values]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("jena_climate_2009_2016.csv", "\n".join([f"Date Time,{names}", *rows]) + "\n")


def reviews_folder(path: Path) -> None:
    """`aclImdb`, beside `path` and in the current folder."""
    draw = random()
    for base in {path.parent, Path.cwd()}:
        for part in ("train/pos", "train/neg", "test/pos", "test/neg"):
            folder = base / "aclImdb" / part
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(30):
                (folder / f"{number}.txt").write_text(" ".join(sentence(draw) for _ in range(4)))


def payments(path: Path) -> None:
    draw = random()
    rows = [
        ",".join([*(f"{value:.4f}" for value in draw.normal(size=30)), f'"{int(row % 5 == 0)}"']) for row in range(200)
    ]
    path.write_text("\n".join([",".join(f'"V{i}"' for i in range(31)), *rows]) + "\n")


def newsgroups(path: Path) -> None:
    draw = random()
    for group in ("comp.graphics", "sci.space", "rec.autos"):
        folder = path.parent / "20_newsgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(38987, 39027):
            (folder / str(number)).write_text("\n".join(sentence(draw) for _ in range(14)), encoding="latin-1")
    vectors = [f"{word} {' '.join(f'{value:.3f}' for value in draw.normal(size=100))}" for word in _WORDS]
    Path("glove.6B.100d.txt").write_text("\n".join(vectors) + "\n")
    path.touch()


def _save(path: Path, values: Any) -> None:
    """Write a picture, and the folders above it."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype("uint8")).save(path)


def pictures(folder: Path, number: int, ending: str = "jpg", shape: tuple[int, ...] = (40, 50, 3)) -> None:
    draw = random(number)
    for index in range(number):
        _save(folder / f"{index:02d}.{ending}", draw.integers(0, 255, shape))


def pets(path: Path) -> None:
    """`PetImages` with a few pictures, and pictures with masks for segmentation."""
    draw = random()
    for kind in ("Cat", "Dog"):
        for number in (*range(40), 6779):
            _save(Path("PetImages") / kind / f"{number}.jpg", draw.integers(0, 255, (40, 50, 3)))
    for number in range(60):
        _save(Path(f"images/pet{number:02d}.jpg"), draw.integers(0, 255, (40, 50, 3)))
        _save(Path(f"annotations/trimaps/pet{number:02d}.png"), draw.integers(1, 4, (40, 50)))


def faces(path: Path) -> None:
    """A zip file of pictures."""
    folder = Path("faces")
    pictures(folder, 60)
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for picture in sorted(folder.iterdir()):
            archive.write(picture, f"img_align_celeba/{picture.name}")


def dark_pictures(path: Path) -> None:
    for name in ("our485/low", "our485/high"):
        pictures(Path("lol_dataset") / name, 60, "png")
    for name in ("eval15/low", "eval15/high"):
        pictures(Path("lol_dataset") / name, 6, "png", (16, 16, 3))


def captchas(path: Path) -> None:
    """Pictures that are named by the five characters on them."""
    draw = random()
    for _ in range(70):
        name = "".join(draw.choice(list("2345bcd"), 5))
        _save(Path("captcha_images_v2") / f"{name}.png", draw.integers(0, 255, (16, 40)))


def captions(path: Path) -> None:
    """Pictures, and five captions for each."""
    pictures(Path("Flicker8k_Dataset"), 70)
    draw = random()
    numbers = range(70)
    rows = [f"{image:02d}.jpg#{i}\t{sentence(draw, int(draw.integers(5, 9)))}" for image in numbers for i in range(5)]
    path.write_text("\n".join(rows) + "\n")


def landscapes(path: Path) -> None:
    for name in ("train", "test"):
        pictures(path / "BSDS500" / "data" / "images" / name, 30)


def planes(path: Path) -> None:
    """Clouds of points, with a file per label that marks its points."""
    folder = Path("PartAnnotation")
    draw = random()
    labels = ["wing", "body"]
    for name in ("points", *(f"points_label/{label}" for label in labels)):
        (folder / "plane" / name).mkdir(parents=True, exist_ok=True)
    for number in range(60):
        np.savetxt(folder / "plane" / "points" / f"{number}.pts", draw.normal(size=(40, 3)))
        chosen = draw.integers(0, 2, 40)
        for index, label in enumerate(labels):
            np.savetxt(folder / "plane" / "points_label" / label / f"{number}.seg", chosen == index, "%d")
    facts = {"Airplane": {"directory": "plane", "lables": labels, "colors": ["blue", "red"]}}
    (folder / "metadata.json").write_text(json.dumps(facts))
    path.touch()


def speech(path: Path) -> None:
    folder = Path("datasets") / "LJSpeech-1.1"
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    draw = random()
    rows = []
    for number in range(60):
        with wave.open(str(folder / "wavs" / f"LJ{number:02d}.wav"), "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(22050)
            sound.writeframes(draw.integers(-2000, 2000, 2600).astype("int16").tobytes())
        text = sentence(draw, 3)
        rows.append(f"LJ{number:02d}|{text}|{text}")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")


def films(path: Path) -> None:
    """MovieLens 1M: users, films and ratings in a zip file."""
    draw = random()
    users = [f"{number}::{'FM'[number % 2]}::{1 + number % 3}::{number % 4}::1000" for number in range(1, 31)]
    movies = [f"{number}::Film {number}::Drama|Comedy" for number in range(1, 41)]
    ratings = [
        f"{1 + row % 30}::{draw.integers(1, 41)}::{draw.integers(1, 6)}::{978300000 + row}" for row in range(400)
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in (("users", users), ("movies", movies), ("ratings", ratings)):
            archive.writestr(f"ml-1m/{name}.dat", "\n".join(rows) + "\n")


def roads(path: Path) -> None:
    """Distances between 228 roads, and the speeds on them."""
    draw = random()
    np.savetxt("PeMSD7_W_228.csv", draw.uniform(0, 9000, (228, 228)), "%.1f", ",")
    np.savetxt("PeMSD7_V_228.csv", draw.normal(60, 9, (220, 228)), "%.2f", ",")


def brain_waves(path: Path) -> None:
    import pandas

    draw = random()
    unused = ["Unnamed: 0", "indra_time", "browser_latency", "reading_time", "attention_esense"]
    columns: dict[str, Any] = {name: range(120) for name in [*unused, "meditation_esense", "updatedAt", "createdAt"]}
    columns["label"] = draw.choice(["blink1", "math2", "relax", "unlabeled"], 120)
    columns["raw_values"] = [json.dumps(draw.integers(-99, 99, 512).tolist()) for _ in range(120)]
    columns["signal_quality"] = 0
    pandas.DataFrame(columns).to_csv(path, index=False)


_FILES: dict[str, Callable[[Path], None]] = {
    "nietzsche": text_file,
    "fra-eng": french,
    "spa-eng": spanish,
    "moving_mnist": moving_digits,
    "ml-latest-small": ratings,
    "jena_climate": weather,
    "aclImdb": reviews_folder,
    "news20": newsgroups,
    "PetImages": pets,
    "kagglecatsanddogs": pets,
    "creditcard": payments,
    "celeba_gan": faces,
    "lol_dataset": dark_pictures,
    "captcha": captchas,
    "Flickr8k": captions,
    "BSR": landscapes,
    "shapenet": planes,
    "LJSpeech": speech,
    "ml-1m": films,
    "PeMSD7": roads,
    "eeg-data": brain_waves,
}


def get_file(fname: str | None = None, origin: str | None = None, **_: Any) -> str:
    """`keras.utils.get_file` without a network. Raises `LookupError` for a file that is not here."""
    name = fname or os.path.basename(str(origin))
    for part, make in _FILES.items():
        if part in f"{name} {origin}":
            path = Path.cwd() / name
            make(path)
            return str(path)
    raise LookupError(f"no made-up file for {name} ({origin})")


# A model that an example downloads, as lines to put before it.

TEACHER = """
teacher = tf.Module()
teacher.kernel = tf.Variable(tf.reshape(tf.range(15.0) / 900, (3, 5)), trainable=False)
teacher.call = tf.function(
    lambda pictures: {"dense": tf.reduce_mean(pictures, (1, 2)) @ teacher.kernel},
    [tf.TensorSpec((None, RESOLUTION, RESOLUTION, 3))],
)
tf.saved_model.save(teacher, "bit_teacher_flowers", teacher.call)
"""


# Tables, by a part of the address.


def census(names: list[str]) -> Any:
    import pandas

    draw = random(len(names))
    choices: dict[str, list[Any]] = {
        "workclass": [" Private", " State-gov"],
        "education": [" Bachelors", " HS-grad", " Masters"],
        "marital_status": [" Never-married", " Divorced"],
        "occupation": [" Sales", " Tech-support", " Adm-clerical"],
        "relationship": [" Wife", " Husband"],
        "race": [" White", " Black"],
        "gender": [" Male", " Female"],
        "native_country": [" United-States", " Cuba", " Peru", " India"],  # more values than any other column
        "income_bracket": [" <=50K", " >50K"],
    }
    columns: dict[str, Any] = {}
    for name in names:
        columns[name] = draw.choice(choices.get(name, [*range(1, 60)]), 300)
    return pandas.DataFrame(columns)


def heart() -> Any:
    import pandas

    draw = random()
    whole = {"sex": 2, "cp": 4, "fbs": 2, "restecg": 3, "exang": 2, "ca": 3, "slope": 3, "target": 2}
    columns: dict[str, Any] = {name: draw.integers(0, number, 200) for name, number in whole.items()}
    columns |= {name: draw.normal(100, 20, 200).round() for name in ("age", "trestbps", "chol", "thalach")}
    thal = draw.choice(["normal", "fixed", "reversible"], 200)
    return pandas.DataFrame(columns | {"oldpeak": draw.normal(1, 1, 200).round(1), "thal": thal})


def daily() -> Any:
    import pandas

    values = 20 + 5 * np.sin(np.arange(900) / 40) + random().normal(size=900) / 10
    stamps = pandas.date_range("2014-04-01", periods=900, freq="5min", name="timestamp")
    return pandas.DataFrame({"value": values}, index=stamps)


class Sentences(list[dict[str, Any]]):
    """Rows of `datasets.load_dataset`, which are also found by a column's name."""

    def __getitem__(self, key: Any) -> Any:
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


def load_dataset(*_: Any, **__: Any) -> dict[str, Sentences]:
    """CoNLL 2003: words with a tag for each."""

    def part(rows: int) -> Sentences:
        draw = random(rows)
        lengths = draw.integers(4, 12, rows)
        return Sentences(
            {"tokens": sentence(draw, length).split(), "ner_tags": draw.integers(0, 9, length).tolist()}
            for length in lengths
        )

    return {"train": part(NUM_TRAIN), "validation": part(20)}


def read_csv(address: str, names: Any) -> Any:
    if "adult" in address:
        return census(list(names))
    if "heart" in address:
        return heart()
    if "art_daily" in address:
        return daily()
    raise LookupError(f"no made-up table for {address}")


def series(address: str) -> Any:
    """FordA: a label of -1 or 1, then 500 numbers."""
    draw = random(len(address))
    labels = draw.choice([-1.0, 1.0], (NUM_TRAIN, 1))
    return np.concatenate([labels, draw.normal(size=(NUM_TRAIN, 60)) + labels], axis=1)
