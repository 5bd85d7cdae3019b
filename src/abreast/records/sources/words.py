"""Words that name classes: their sorted names, and the checks that they are class names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from abreast.errors import DataError
from abreast.records.format import manifest
from abreast.stderr import tell

_NUMBER = re.compile(r"[+-]?[0-9]*[.,]?[0-9]+(?:[eE][+-]?[0-9]+)?")
_MANY = 100
_FIX = "class_names (--class-names)"


def names_of(column: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """The sorted names of the classes. `counts` has the number of samples of each word. Raises `DataError`."""
    numbers = sorted(word for word in counts if _NUMBER.fullmatch(word))
    words = sorted(counts.keys() - {*numbers})
    if numbers and words:
        hint = f"write all of them as words, or all as numbers; if they are names of classes, list them: {_FIX}"
        raise DataError(f"column {column!r} mixes numbers and words: {numbers[0]!r} and {words[0]!r}", hint)
    total = sum(counts.values())
    if are_too_many(len(counts), total):
        hint = f"name a column of classes, or of numbers; if these are names of classes, list them: {_FIX}"
        some = ", ".join(repr(word)[:40] for word in sorted(counts)[:3])
        raise DataError(f"column {column!r} has {len(counts):,} different words for {total:,} images: {some}", hint)
    _tell_of_case(column, counts)
    return tuple(sorted(counts))


def are_too_many(num_different: int, num_images: int) -> bool:
    """True if there are too many different values for classes: at least 100, and more than half the number of images."""
    return num_different >= _MANY and 2 * num_different > num_images


def _tell_of_case(column: str, words: Iterable[str]) -> None:
    folded = Counter(word.casefold() for word in words)
    twice = sorted(word for word in words if folded[word.casefold()] > 1)
    if twice:
        tell(f"column {column!r} has classes that differ only in case: {', '.join(map(repr, twice[:4]))}")


def given_names(given: str | PathLike[str] | Sequence[str]) -> tuple[str, ...]:
    """The names of a list, of a packed data set, or of a text file with a name on each line. Raises `DataError`."""
    names = _names_at(Path(fspath(given))) if isinstance(given, str | PathLike) else tuple(given)
    bad = next((name for name in names if not isinstance(name, str) or not name.strip()), None)
    twice = next((name for name, count in Counter(map(str, names)).items() if count > 1), None)
    if bad is not None or twice is not None or not names:
        wrong = "there is none" if not names else f"{bad!r:.80}" if bad is not None else f"{twice!r:.80} is there twice"
        raise DataError(f"these are not names of classes: {wrong}", "give each class one name, as text")
    return names


def _names_at(path: Path) -> tuple[str, ...]:
    if path.is_dir():
        names = manifest.read(path).class_names
        if names is None:
            raise DataError(
                f"{path} has no class names", "name a data set that has, or a file with a name on each line"
            )
        return names
    try:
        return tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a packed data set, or a text file with the name of a class on each line"
        raise DataError(
            f"cannot read class names from {path}: {getattr(error, 'strerror', None) or error}", hint
        ) from None


def unknown(column: str, word: Any, names: Sequence[str]) -> DataError:
    """The error for a word that is not the name of a class."""
    some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    hint = "correct the word, or add it to the class names"
    return DataError(f"column {column!r} has the word {word!r:.80}, and the {len(names):,} classes are {some}", hint)
