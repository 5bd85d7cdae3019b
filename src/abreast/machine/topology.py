"""The output of `nvidia-smi topo -m` as data: the link of each pair of GPUs, and the cores near each GPU.

Runs the command, and parses the output of every version so far, with tabs or, as in pasted text, with spaces.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from abreast.errors import DataError

# From near to far; `NV#` stands for that many NVLinks.
CLASSES = {
    "PIX": "at most one PCIe bridge",
    "PXB": "several PCIe bridges, and no host bridge",
    "PHB": "a PCIe host bridge, mostly the processor",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "the link between NUMA nodes",
    "SOC": "the link between sockets (the name of SYS before 2017)",
}
_SECONDS = 20
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_LINK = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|N/A")
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass(frozen=True)
class Topology:
    """The links of a machine's GPUs, which are numbered from 0 as in the matrix.

    `links` maps pairs of GPUs to a class or `NV#`. `cores` and `numa_nodes` have no entry for a GPU whose value is unknown.
    """

    num_gpus: int
    links: dict[tuple[int, int], str]
    cores: dict[int, str]
    numa_nodes: dict[int, str]
    nics: dict[str, tuple[str, ...]]  # network card's name -> the class of its link to each GPU

    def nvlinks(self, first: int, second: int) -> int:
        """Number of NVLinks between two GPUs, direct or through a switch."""
        kind = self.links[first, second]
        return int(kind[2:]) if kind.startswith("NV") else 0


def topology_text() -> str | None:
    """The output of the command on this machine; None if there is no such command, or if it fails."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def parse(text: str) -> Topology:
    """Parse the matrix. Raises `DataError` if there is none, or if two GPUs disagree about their link."""
    rows = [_ESCAPES.sub("", row) for row in text.splitlines()]
    start = next((number for number, row in enumerate(rows) if re.match(r"\s*GPU0\b.*Affinity", row)), None)
    if start is None:
        raise DataError(f"no matrix of links in {text[:60]!r}", "give what `nvidia-smi topo -m` prints")
    names = _before_affinity(rows[start]).split()
    gpus = [name for name in names if name.startswith("GPU")]
    links: dict[tuple[int, int], str] = {}
    cores: dict[int, str] = {}
    nodes: dict[int, str] = {}
    nics: dict[str, tuple[str, ...]] = {}
    for row in rows[start + 1 :]:
        name, cells = _cells(row)
        if name not in names:
            if name and (links or nics):
                break  # the legend follows the matrix
            continue
        kinds = cells[: len(names)]
        _check_row(name, kinds, len(gpus))
        if name in gpus:
            place = gpus.index(name)
            links |= {(place, other): kind for other, kind in enumerate(kinds[: len(gpus)]) if other != place}
            cores |= _cell(place, cells, len(names))
            nodes |= _cell(place, cells, len(names) + 1)
        else:
            nics[name] = tuple(kinds[: len(gpus)])
    _check(links, len(gpus))
    return Topology(len(gpus), links, cores, nodes, nics)


def _before_affinity(header: str) -> str:
    return header[: min(place for name in _AFFINITIES if (place := header.find(name)) >= 0)]


def _cells(row: str) -> tuple[str, list[str]]:
    """A row's name, and its cells. If the row has tabs, empty cells are kept."""
    parts = row.strip().split("\t") if "\t" in row.strip() else row.split()
    cells = [part.strip() for part in parts]
    return (cells[0], cells[1:]) if cells else ("", [])


def _cell(place: int, cells: list[str], column: int) -> dict[int, str]:
    return {place: cells[column]} if column < len(cells) and cells[column] not in ("", "N/A") else {}


def _check_row(name: str, kinds: list[str], num_gpus: int) -> None:
    if len(kinds) < num_gpus or not all(_LINK.fullmatch(kind) for kind in kinds[:num_gpus]):
        raise DataError(
            f"the row of {name} is {' '.join(kinds)!r}, not a list of links to {num_gpus} GPUs",
            "give the whole matrix, unchanged",
        )


def _check(links: dict[tuple[int, int], str], num_gpus: int) -> None:
    for first in range(num_gpus):
        for second in range(first + 1, num_gpus):
            pair = links.get((first, second)), links.get((second, first))
            if pair[0] is None or pair[0] != pair[1]:
                raise DataError(
                    f"the link from GPU{first} to GPU{second} is {pair[0]}, and the link back is {pair[1]}",
                    "give the whole matrix, unchanged",
                )
