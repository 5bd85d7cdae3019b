"""`benchmarks/slow_links.py`: hosts and links that are as slow as they should be, and that nothing remains of."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from abreast.machine import host_speeds
from benchmarks.slow_links import NotPermitted, SlowLink, inside, shaping, slow_link
from tests.harness.client import ROOT

_HOLD = """
import slow_links, time
with slow_links.slow_link({delay}):
    print('ready', flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module", autouse=True)
def _permitted() -> None:
    try:
        with slow_link():
            pass
    except NotPermitted as error:
        pytest.skip(str(error.args[0]))


@pytest.fixture
def link() -> Iterator[SlowLink]:
    with slow_link() as made:
        yield made


def speed(link: SlowLink, sent_bytes: int) -> tuple[float, float]:
    with link.connection() as ends:
        return host_speeds.connection(*ends, sent_bytes)


def namespaces(of: int | None = None) -> set[str]:
    """Those that any process is in; or the children of one process. Not ours."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if of in (None, parent):
                found.add(os.readlink(path / "ns/net"))
    return found - {os.readlink("/proc/self/ns/net")}


def interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def test_a_link_has_the_rate_that_it_is_limited_to(link: SlowLink) -> None:
    link.shape(100e6)
    rate, _ = speed(link, 1_250_000)
    assert rate == pytest.approx(12.5e6, rel=0.2)  # measured 0.956 of it: headers
    link.shape(1e9)
    rate, _ = speed(link, 12_500_000)
    assert rate == pytest.approx(125e6, rel=0.3)


def test_a_proxy_delays_its_traffic() -> None:
    with slow_link(delay_seconds=2e-3) as link:
        link.shape(1e9)
        _, latency = speed(link, 1_000_000)
    assert 2e-3 < latency < 6e-3  # measured 2.2e-3; 1e-5 without the proxy


def test_a_host_reaches_only_the_other_host(link: SlowLink) -> None:
    assert interfaces() & {"slow0"} == set()
    with inside(link.hosts[0].path):
        assert interfaces() == {"lo", "slow0"}


def test_errors_of_tc_are_reported(link: SlowLink) -> None:
    with pytest.raises(NotPermitted, match="tbf"):
        link.hosts[0].run(*[word.replace("slow0", "nowhere") for word in shaping(1e9)])


@pytest.mark.parametrize("delay", [0.0, 1e-3])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_remains_however_the_benchmark_ends(end: signal.Signals, delay: float) -> None:
    before = interfaces()
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'benchmarks'}"}
    words = [sys.executable, "-c", _HOLD.format(delay=delay)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        made = namespaces(of=process.pid)
        assert len(made) == (4 if delay else 2)
        process.send_signal(end)
        process.wait(20)
    deadline = time.monotonic() + 10
    while namespaces() & made and time.monotonic() < deadline:
        time.sleep(0.02)
    assert namespaces() & made == set()
    assert interfaces() == before
