"""Processes that the user starts by hand, one per host: `abreast run --hosts`, or the variable `ABREAST_HOSTS`."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Mapping

from abreast.errors import LaunchError
from abreast.launchers.own_addresses import is_own, own_addresses
from abreast.launchers.route import is_loopback
from abreast.launchers.variables import port
from abreast.launchers.world import World

HOSTS, THIS = "ABREAST_HOSTS", "ABREAST_HOST_RANK"
# torchrun's port: firewalls may allow it, and Linux gives it to no connection (their ports begin at 32768).
DEFAULT_PORT = 29500
_AS = "as `--hosts 10.0.0.1,10.0.0.2`, the same on every host"


def by_hand(environ: Mapping[str, str]) -> World | None:
    """The world that `ABREAST_HOSTS` describes. The first host is rank 0."""
    text = environ.get(HOSTS)
    if text is None:
        return None
    hosts = hosts_of(text)
    rank = _number_of_this_host(hosts, environ.get(THIS))
    if (other := environ.get("MASTER_ADDR", hosts[0])) != hosts[0]:
        raise LaunchError(
            f"MASTER_ADDR={other}, but --hosts begins with {hosts[0]}", "unset MASTER_ADDR, or name rank 0's host first"
        )
    where = hosts[0], port(environ, "MASTER_PORT") or DEFAULT_PORT
    if all(map(_is_loopback, hosts)):  # one host, for tests
        return World(rank, len(hosts), rank, len(hosts), hosts[rank], "--hosts", *where)
    return World(rank, len(hosts), 0, 1, hosts[rank], "--hosts", *where, per="host")


@functools.cache
def hosts_of(text: str) -> tuple[str, ...]:
    """The hosts of a list, IPv6 without brackets. Raises `LaunchError` unless the list is a job of several hosts."""
    if text.strip().isdecimal():
        raise LaunchError(
            f"--hosts {text} is a number, but lists the hosts' addresses", f"name them, {_AS}; a number is for --ray"
        )
    hosts = tuple(_host(each.strip(), text) for each in text.split(","))
    if len(hosts) == 1:
        hint = f"name all, {_AS}; or leave out --hosts (ABREAST_HOSTS) to train on this one"
        raise LaunchError(f"--hosts {text} is one host", hint)
    twice = next((host for i, host in enumerate(hosts) if host in hosts[:i]), None)
    if twice is not None:
        raise LaunchError(
            f"--hosts {text} names {twice} twice", "name each host once: one process drives all its devices"
        )
    inside = next(filter(_is_loopback, hosts), None)
    outside = next((host for host in hosts if not _is_loopback(host)), None)
    if inside is not None and outside is not None:
        raise LaunchError(
            f"--hosts {text}: {outside} cannot reach {inside}, a loopback address",
            f"give the address of that host on the network of {outside}",
        )
    return hosts


def _host(entry: str, text: str) -> str:
    if not entry:
        raise LaunchError(f"--hosts {text} has an empty name", f"name all hosts, {_AS}")
    bare = entry[1:-1] if entry.startswith("[") and entry.endswith("]") else entry
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return _name(entry, text)
    if address.version == 6 and bare == entry:
        raise LaunchError(f"--hosts {text}: {entry} is an IPv6 address without brackets", f"write [{entry}]")
    if address.is_unspecified or address.is_multicast:
        raise LaunchError(f"--hosts {text}: {entry} is not a host's address", f"give each host's own, {_AS}")
    return str(address)


def _name(entry: str, text: str) -> str:
    if re.fullmatch(r"(.+):\d+", entry):
        raise LaunchError(f"--hosts {text}: {entry} has a port", "leave it out, and give `--port` to every host")
    if not re.fullmatch(r"(?!.*\.\d+$)[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", entry):
        raise LaunchError(f"--hosts {text}: {entry!r} is not a valid name or address of a host", f"write them {_AS}")
    return entry.lower()


def _is_loopback(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


@functools.cache
def _number_of_this_host(hosts: tuple[str, ...], this: str | None) -> int:
    """This host's number in the list: `this`, checked against this host's addresses; else the only entry that is one of them."""
    own = [i for i, host in enumerate(hosts) if is_own(host)]
    if this is not None:
        if not this.strip().isdecimal() or int(this) >= len(hosts):
            last = f"the {len(hosts)} hosts of --hosts {','.join(hosts)} have the numbers 0 to {len(hosts) - 1}"
            raise LaunchError(f"--this {this} (ABREAST_HOST_RANK) is out of range: {last}", "give this host's number")
        if own and int(this) not in own:
            raise LaunchError(
                f"--this {this} (ABREAST_HOST_RANK) is {hosts[int(this)]}, but this host has {hosts[own[0]]}, number {own[0]}",
                f"give `--this {own[0]}` here, or leave it out",
            )
        return int(this)
    if len(own) != 1:
        names = ", ".join(hosts)
        what = f"{len(own)} of --hosts ({names}) are" if own else f"none of --hosts ({names}) is"
        mine = ", ".join(own_addresses()) or "none"
        raise LaunchError(
            f"{what} among this host's own addresses ({mine})",
            "say which one this host is: `--this 0` on the first, `--this 1` on the second",
        )
    return own[0]
