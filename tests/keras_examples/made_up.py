"""Small made-up data in the place of the data sets that Keras's examples download: the shapes and types, and nothing else.

Files are written to the current folder, under the names that the examples look for. Imports no framework.
"""

from __future__ import annotations

import os
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


def pets(path: Path) -> None:
    """`PetImages` with a few pictures, and pictures with masks for segmentation."""
    from PIL import Image

    draw = random()
    for kind in ("Cat", "Dog"):
        folder = Path("PetImages") / kind
        folder.mkdir(parents=True, exist_ok=True)
        for number in (*range(40), 6779):
            Image.fromarray(draw.integers(0, 255, (40, 50, 3)).astype("uint8")).save(folder / f"{number}.jpg")
    for name in ("images", "annotations/trimaps"):
        Path(name).mkdir(parents=True, exist_ok=True)
    for number in range(60):
        Image.fromarray(draw.integers(0, 255, (40, 50, 3)).astype("uint8")).save(f"images/pet{number:02d}.jpg")
        mask = draw.integers(1, 4, (40, 50)).astype("uint8")
        Image.fromarray(mask).save(f"annotations/trimaps/pet{number:02d}.png")


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
        "native_country": [" United-States", " Cuba"],
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
