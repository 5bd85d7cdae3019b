"""Any number of emulated hosts on one switch: each is a network namespace whose cable can be pulled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.slow_links import DEVICE, Namespace

_SWITCH = "switch0"


def address_of(host: int) -> str:
    return f"10.78.0.{host + 1}"


@contextlib.contextmanager
def emulated_hosts(number: int) -> Iterator[list[Namespace]]:
    """Hosts that reach one another at their `address_of`. Raises `NotPermitted` where they cannot be emulated."""
    with contextlib.ExitStack() as stack:
        switch, *hosts = (_namespace(stack) for _ in range(number + 1))
        switch.run("ip", "link", "add", _SWITCH, "type", "bridge")
        switch.run("ip", "link", "set", _SWITCH, "up")
        for place, host in enumerate(hosts):
            _plug_in(host, switch, place)
        yield hosts


def pull_cable(host: Namespace) -> None:
    host.run("ip", "link", "set", DEVICE, "down")


def _namespace(stack: contextlib.ExitStack) -> Namespace:
    made = Namespace()
    stack.callback(made.close)
    return made


def _plug_in(host: Namespace, switch: Namespace, place: int) -> None:
    port = f"port{place}"
    host.run("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", port, "netns", str(switch.pid))
    switch.run("ip", "link", "set", port, "master", _SWITCH, "up")
    host.run("ip", "address", "add", f"{address_of(place)}/24", "dev", DEVICE)
    host.run("ip", "link", "set", DEVICE, "up")
