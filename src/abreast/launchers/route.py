"""The address of this host on the way to another. A datagram socket only looks up the route: nothing is sent."""

from __future__ import annotations

import contextlib
import socket

DEFAULT_ROUTE = "192.0.2.1"  # an address for documentation: the way to it is the default route


def own_address_towards(host: str) -> str | None:
    """This host's address on the way to `host`, maybe to itself; None if the way is unknown, or `host` is the loopback here."""
    with contextlib.suppress(OSError):
        family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            own: str = probe.getsockname()[0]
        if not own.startswith("127.") and own != "::1":
            return own
    return None
