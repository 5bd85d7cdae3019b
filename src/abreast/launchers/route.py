"""The address of this host on the way to another. A datagram socket only looks up the route: nothing is sent."""

from __future__ import annotations

import contextlib
import socket

from abreast.launchers.world import LOOPBACK, World

DEFAULT_ROUTE = "192.0.2.1"  # an address for documentation, reached over the default route


def own_address_towards(host: str) -> str | None:
    """This host's address on the route to `host`, maybe itself; None if there is no route, or `host` is the loopback here."""
    with contextlib.suppress(OSError):
        family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            own: str = probe.getsockname()[0]
        if not is_loopback(own):
            return own
    return None


def addresses(world: World, address: str) -> tuple[str, str]:
    """This host's address for the others, and the address at which this host reaches rank 0.

    The name of rank 0 may mean the loopback on its own host. The others then reach it by the default route. An address without a
    route stays unchanged, and so does a name that is not known yet: Kubernetes publishes the names of pods a little after their
    start.
    """
    own = own_address_towards(address)
    if own is not None:
        return own, own if world.rank == 0 else address
    own = LOOPBACK if world.is_on_one_host else own_address_towards(DEFAULT_ROUTE) or LOOPBACK
    is_elsewhere = world.rank > 0 and not world.is_on_one_host and not _leads_to_loopback(address)
    return own, address if is_elsewhere else own


def _leads_to_loopback(host: str) -> bool:
    """Whether a host means the loopback; false for a name that is not known yet, and for an unreachable address."""
    with contextlib.suppress(OSError, UnicodeError):
        return is_loopback(str(socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0][4][0]))
    return False


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
