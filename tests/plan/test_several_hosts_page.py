"""The figures of the guide about several hosts are those that its commands print today."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from tests.harness.client import ROOT

PAGE = (ROOT / "docs/guides/several-hosts.md").read_text()
NETWORKS = {
    "1 Gb/s": ("tcp", 0.125e9, 50e-6),
    "10 Gb/s": ("tcp", 1.25e9, 50e-6),
    "25 Gb/s": ("tcp", 3.125e9, 50e-6),
    "100 Gb/s": ("tcp", 12.5e9, 50e-6),
    "100 Gb/s, RDMA": ("rdma", 12.5e9, 5e-6),
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The machine of the page, with the files that its commands name."""
    found: dict[str, Any] = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
    one = {**found, "name": "one host", "devices_per_host": 8}
    del one["network"]
    (tmp_path / "two-hosts.json").write_text(json.dumps(found))
    (tmp_path / "one-host.json").write_text(json.dumps(one))
    monkeypatch.chdir(tmp_path)
    return found


def printed(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(shlex.split(words)) == 0
    return capsys.readouterr().out


def test_every_command_of_the_page_prints_what_the_page_shows(
    machine: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = re.findall(r"```text\n\$ abreast (plan .*)\n((?:.*\n)*?)```", PAGE)
    assert len(shown) == 5
    for command, output in shown:
        assert printed(command, capsys) == output


def test_the_table_has_what_plan_prints_for_each_network(
    machine: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    head, _, *rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("|")]
    assert head[1:] == [*NETWORKS, "one host"] and len(rows) == 3
    for model, *cells in rows:
        for name, cell in zip(NETWORKS, cells, strict=False):
            kind, rate, latency = NETWORKS[name]
            network = {"kind": kind, "bytes_per_second": rate, "latency_seconds": latency}
            Path("two-hosts.json").write_text(json.dumps({**machine, "network": network}))
            command = f"plan --machine two-hosts.json --devices 8 --json {model.strip('`')}"
            *_, within, over_hosts = json.loads(printed(command, capsys))["points"]
            assert cell == cell_of(over_hosts), (model, name)
        assert cells[-1] == cell_of(within)


def cell_of(point: dict[str, Any]) -> str:
    if point["abstains"]:
        return "-"
    return f"{point['rows_per_second']:,.0f} ({point['efficiency']:.0%})"
