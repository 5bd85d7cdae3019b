"""The output of `nvidia-smi topo -m` as data: the link of each pair of GPUs.

Runs the command, and parses the output of every version so far, with tabs or, as in pasted text, with spaces.
"""

from __future__ import annotations

import re
import subprocess

from abreast.errors import DataError
from abreast.stdout import without_styles

_SECONDS = 20
# `NV#` stands for that many NVLinks. The other words, from near to far: one PCIe bridge, several, a host bridge, several host
# bridges of a NUMA node, the link between nodes, and its name before 2017.
_LINK = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|N/A")
Links = dict[tuple[int, int], str]  # by pair of GPUs, which are numbered from 0 as in the matrix


def num_nvlinks(link: str) -> int:
    """Number of NVLinks between two GPUs with this word in the matrix, direct or through a switch."""
    return int(link.removeprefix("NV")) if link.startswith("NV") else 0


def topology_text() -> str | None:
    """The output of the command on this machine; None if there is no such command, or if it fails."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def parse(text: str) -> Links:
    """The links in the matrix. Raises `DataError` if there is no matrix, or if two GPUs disagree about their link."""
    rows = without_styles(text).splitlines()
    start = next((number for number, row in enumerate(rows) if re.match(r"\s*GPU0\b.*Affinity", row)), None)
    if start is None:
        raise DataError(f"no matrix of links in {text[:60]!r}", "give what `nvidia-smi topo -m` prints")
    gpus = re.findall(r"\bGPU\d+", rows[start])
    links: Links = {}
    for row in rows[start + 1 :]:
        name, *kinds = _cells(row)[: len(gpus) + 1] or [""]
        if name in gpus:
            _check_row(name, kinds, len(gpus))
            place = gpus.index(name)
            links |= {(place, other): kind for other, kind in enumerate(kinds) if other != place}
    _check(links, len(gpus))
    return links


def _cells(row: str) -> list[str]:
    """A row's name, and its cells. If the row has tabs, empty cells are kept."""
    parts = row.strip().split("\t") if "\t" in row.strip() else row.split()
    return [part.strip() for part in parts]


def _check_row(name: str, kinds: list[str], num_gpus: int) -> None:
    if len(kinds) < num_gpus or not all(map(_LINK.fullmatch, kinds)):
        raise DataError(
            f"the row of {name} is {' '.join(kinds)!r}, not a list of links to {num_gpus} GPUs",
            "give the whole matrix, unchanged",
        )


def _check(links: Links, num_gpus: int) -> None:
    for first in range(num_gpus):
        for second in range(first + 1, num_gpus):
            pair = links.get((first, second)), links.get((second, first))
            if pair[0] is None or pair[0] != pair[1]:
                raise DataError(
                    f"the link from GPU{first} to GPU{second} is {pair[0]}, and the link back is {pair[1]}",
                    "give the whole matrix, unchanged",
                )
