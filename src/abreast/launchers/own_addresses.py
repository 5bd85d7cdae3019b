"""The addresses of this host's own interfaces. Opens no connection."""

from __future__ import annotations

import socket
from itertools import pairwise
from pathlib import Path

from abreast.system_files import text_of


def is_own(host: str) -> bool:
    """Whether a name or an address belongs to this host: a socket can be bound to it."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


def own_addresses(root: Path = Path("/")) -> tuple[str, ...]:
    """Every address that another host could reach. Source: the kernel's table of local routes."""
    lines = text_of(root / "proc/net/fib_trie").splitlines()
    local = (before.split()[-1] for before, line in pairwise(lines) if line.strip() == "/32 host LOCAL")
    rows = (line.split()[0] for line in text_of(root / "proc/net/if_inet6").splitlines())
    found = [*local, *(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row)) for row in rows)]
    return tuple(dict.fromkeys(each for each in found if not each.startswith(("127.", "fe80:")) and each != "::1"))
