"""The network interface through which this host reaches another; gloo needs its name on a host with several.

Without the name, gloo uses the address of the host's own name. On many hosts that is a loopback address, and ranks of several
hosts then wait for one another for ever. This module opens no connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from abreast.errors import BackendError, LaunchError
from abreast.launchers.route import DEFAULT_ROUTE, own_address_towards

_SIOCGIFADDR = 0x8915
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_LOOPBACK_NET = 127
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def choose_interface(master_addr: str, environ: MutableMapping[str, str], *, several_hosts: bool = False) -> None:
    """Choose loopback for ranks on one host, and the interface towards rank 0 for several hosts, unless the user chose one.

    The name of rank 0's host may mean the loopback on that host. With `several_hosts`, the host then uses the interface of its
    default route. NCCL finds the interfaces between hosts by itself, and may use more than one.
    """
    if master_addr in _LOOPBACK:
        environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    elif "GLOO_SOCKET_IFNAME" not in environ:
        interface = interface_towards(master_addr) or (interface_towards(DEFAULT_ROUTE) if several_hosts else None)
        if interface is not None:
            environ["GLOO_SOCKET_IFNAME"] = interface


def check_interface(environ: MutableMapping[str, str]) -> None:
    """Raise `BackendError` if gloo could not listen; gloo's own errors would come from several processes."""
    names = environ.get("GLOO_SOCKET_IFNAME", "lo").split(",")
    for name in names:
        if not _can_listen(name):
            hint = "start it: `ip link set lo up`; " if name == "lo" else ""
            raise BackendError(
                f"PyTorch's workers use the network interface {name}, which has no address to listen on",
                f"{hint}name another one in GLOO_SOCKET_IFNAME, or train with KERAS_BACKEND=jax or on one device",
            )


def check_between_hosts(master_addr: str, environ: Mapping[str, str]) -> None:
    """Raise `LaunchError` if the user chose an interface at which processes of other hosts cannot reach this one."""
    # With a loopback address, all processes are on this host.
    names = "" if master_addr in _LOOPBACK else environ.get("GLOO_SOCKET_IFNAME", "")
    for name in filter(None, names.split(",")):
        address = _ipv4_address(name)
        is_loopback = address is not None and address[0] == _LOOPBACK_NET
        if is_loopback or not _can_listen(name):
            what = "is the loopback, which no other host reaches" if is_loopback else "has no address here"
            raise LaunchError(
                f"the network interface {name} (GLOO_SOCKET_IFNAME) {what}",
                "leave GLOO_SOCKET_IFNAME out: abreast takes the interface that leads to rank 0; or name that of this host "
                "(`ip -brief address`)",
            )


def _can_listen(interface: str) -> bool:
    address = _ipv4_address(interface)
    if address is None:
        rows = _IPV6_ADDRESSES.read_text().split() if _IPV6_ADDRESSES.exists() else []
        return interface in rows
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
        probe.bind((socket.inet_ntoa(address), 0))
        return True
    return False


def interface_towards(host: str) -> str | None:
    """The name of the interface that sends packets to `host`; None if it is unknown.

    For this host itself, it is the interface with the host's address, unless the host's name stands for the loopback.
    """
    with contextlib.suppress(OSError):
        if (own := own_address_towards(host)) is not None:
            return _interface_with(own)
    return None


def _interface_with(address: str) -> str | None:
    if ":" in address:
        wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
        rows = [line.split() for line in _IPV6_ADDRESSES.read_text().splitlines()]
        return next((row[-1] for row in rows if row[0] == wanted), None)
    wanted_bytes = socket.inet_aton(address)
    return next((name for _, name in socket.if_nameindex() if _ipv4_address(name) == wanted_bytes), None)


def _ipv4_address(interface: str) -> bytes | None:
    """The first IPv4 address of an interface; None if it has none."""
    import fcntl  # not on Windows

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        return answer[20:24]
    return None
