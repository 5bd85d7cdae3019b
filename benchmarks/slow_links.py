"""Two emulated hosts on this machine, with a link of any speed between them.

Each host is a network namespace that exists as long as a process in it, a `cat` that ends with this process, however that
ends: nothing has a name, and nothing is left. A pair of virtual Ethernet devices joins the hosts; `tc ... tbf` limits the rate
at which each sends. Not every kernel can delay packets (`netem`), so `slow_proxy.py` makes the delay, on a third
and a fourth namespace between the two. Needs Linux, root and the commands of iproute2 and util-linux. Imports no framework.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from abreast.errors import AbreastError

ADDRESSES = ("10.77.0.1", "10.77.0.2")
DEVICE = "slow0"  # in every namespace
PORTS = range(20000, 20128)  # ports of the hosts: the proxy listens on all of them in place of the hosts
_COMMANDS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2", "sysctl": "procps"}
_BURST_SECONDS = 1e-3
_LEAST_BURST_BYTES = 128 << 10  # two packets as large as the kernel makes them
_QUEUE_SECONDS = 20e-3
_WAIT_SECONDS = 10.0
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class NotPermitted(AbreastError):
    """Hosts cannot be emulated here; the message has the reason."""


class Namespace:
    """A network namespace, and the process that keeps it."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # only the benchmark gets Ctrl-C; it then ends everything in order
        )
        self.pid = self._keeper.pid
        try:
            self._await_birth()
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    def command(self, *words: str) -> list[str]:
        """The command that runs these words in the namespace."""
        return ["nsenter", f"--net={self.path}", *words]

    def run(self, *words: str) -> None:
        """Run a command in the namespace, to its end. Raises `NotPermitted` with its output if it fails."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=_WAIT_SECONDS, check=False)
        if done.returncode:
            raise _not_permitted(f"`{' '.join(words)}` failed: {done.stderr.strip()}")

    def _await_birth(self) -> None:
        outside, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            if self._keeper.poll() is not None:
                assert self._keeper.stderr is not None
                raise _not_permitted(self._keeper.stderr.read().strip())
            with contextlib.suppress(OSError):  # it is ending already
                if os.readlink(self.path) != outside:
                    return
            time.sleep(0.005)
        raise _not_permitted("`unshare --net` did not answer")

    def close(self) -> None:
        """End the namespace: the kernel removes it with its devices when nothing runs in it."""
        assert self._keeper.stdin is not None and self._keeper.stderr is not None
        self._keeper.stdin.close()
        try:
            self._keeper.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._keeper.stderr.close()


class SlowLink:
    """Two hosts, each with its entry in `ADDRESSES`; `shape` limits the link between them."""

    def __init__(self, hosts: Sequence[Namespace]) -> None:
        self.hosts = tuple(hosts)

    def shape(self, bits_per_second: float) -> None:
        """Limit the bytes that both hosts send in a second; existing connections stay."""
        for host in self.hosts:
            host.run(*shaping(bits_per_second))

    @contextlib.contextmanager
    def connection(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        """The two ends of a TCP connection between the hosts."""
        first, second = self.hosts
        with inside(second.path):
            server = socket.create_server((ADDRESSES[1], 0))
        with server:
            with inside(first.path):
                ours = socket.create_connection(server.getsockname())
            with ours, server.accept()[0] as theirs:
                yield ours, theirs


def shaping(bits_per_second: float) -> list[str]:
    """The command that limits the rate of `DEVICE`."""
    burst = max(_LEAST_BURST_BYTES, round(bits_per_second / 8 * _BURST_SECONDS))
    limit = burst + round(bits_per_second / 8 * _QUEUE_SECONDS)
    bucket = f"rate {round(bits_per_second)}bit burst {burst} limit {limit}"
    return f"tc qdisc replace dev {DEVICE} root tbf {bucket}".split()


@contextlib.contextmanager
def slow_link(delay_seconds: float = 0.0) -> Iterator[SlowLink]:
    """Two hosts joined at full rate, with that delay each way. Raises `NotPermitted` if this is impossible."""
    _check_commands()
    with contextlib.ExitStack() as stack:
        first, second = (_namespace(stack) for _ in ADDRESSES)
        if delay_seconds == 0:
            _join(first, second)
        else:
            near, far = (_namespace(stack) for _ in ADDRESSES)
            _join(first, near)  # `near` takes the place of the second host for the first one,
            _join(far, second)  # and `far` as the first one to the second
            for host in (first, second):
                host.run("sysctl", "-qw", f"net.ipv4.ip_local_port_range={PORTS[0]} {PORTS[-1]}")
            stack.enter_context(_proxy(near, far, delay_seconds))
        yield SlowLink((first, second))


@contextlib.contextmanager
def inside(path: str) -> Iterator[None]:
    """Put this thread into the namespace at that path. A socket made here stays in that namespace."""
    back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _enter(path)
        yield
    finally:
        _set_namespace(back)
        os.close(back)


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _check_commands() -> None:
    for command, package in _COMMANDS.items():
        if shutil.which(command) is None:
            raise NotPermitted(f"there is no command {command!r}", f"it comes with {package}")


def _namespace(stack: contextlib.ExitStack) -> Namespace:
    made = Namespace()
    stack.callback(made.close)
    return made


def _join(left: Namespace, right: Namespace) -> None:
    left.run("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", str(right.pid))
    for namespace, address in zip((left, right), ADDRESSES, strict=True):
        namespace.run("ip", "address", "add", f"{address}/24", "dev", DEVICE)
        namespace.run("ip", "link", "set", DEVICE, "up")


@contextlib.contextmanager
def _proxy(near: Namespace, far: Namespace, delay_seconds: float) -> Iterator[None]:
    script = str(Path(__file__).with_name("slow_proxy.py"))
    words = [sys.executable, script, near.path, far.path, str(delay_seconds)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise _not_permitted("the proxy did not start")
            yield
        finally:
            process.kill()


def _enter(path: str) -> None:
    target = os.open(path, os.O_RDONLY)
    try:
        _set_namespace(target)
    finally:
        os.close(target)


def _set_namespace(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _not_permitted(why: str) -> NotPermitted:
    hint = "run as root on Linux, or under `unshare --map-root-user --net`; many containers permit neither"
    return NotPermitted(f"hosts cannot be emulated here: {why}", hint)
