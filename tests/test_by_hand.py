"""Hosts that somebody starts by hand: `abreast run --hosts`, and the variables in place of its options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from abreast.errors import LaunchError
from abreast.launchers import World, read_world
from abreast.launchers.by_hand import hosts_of
from abreast.launchers.own_addresses import is_own, own_addresses
from tests import recorded_launchers as recorded
from tests.harness.client import ROOT
from tests.recorded_launchers import Variables

# Addresses of documentation: those of no host that runs this.
ELSEWHERE = {"ABREAST_HOSTS": "203.0.113.1,203.0.113.2", "ABREAST_HOST_RANK": "1"}
LOOPBACK = {"ABREAST_HOSTS": "127.0.0.1,127.0.0.2"}


def refusal(environ: Variables) -> str:
    with pytest.raises(LaunchError) as caught:
        read_world(environ)
    return str(caught.value)


def test_the_first_host_is_rank_0_and_one_process_drives_each_host() -> None:
    assert read_world(ELSEWHERE) == World(1, 2, 0, 1, "203.0.113.2", "--hosts", "203.0.113.1", 29500, per="host")
    assert read_world({**ELSEWHERE, "MASTER_PORT": "7777"}).master_port == 7777


def test_ipv6_and_names() -> None:
    world = read_world({"ABREAST_HOSTS": "[2001:db8:0::1], N02.example.org ,203.0.113.2", "ABREAST_HOST_RANK": "0"})
    assert (world.size, world.host, world.master_addr) == (3, "2001:db8::1", "2001:db8::1")
    assert hosts_of("[2001:db8:0::1], N02.example.org ") == ("2001:db8::1", "n02.example.org")


def test_hosts_on_the_loopback_are_processes_of_one_host() -> None:
    world = read_world({**LOOPBACK, "ABREAST_HOST_RANK": "1"})
    assert world == World(1, 2, 1, 2, "127.0.0.2", "--hosts", "127.0.0.1", 29500, per="device")


@pytest.mark.parametrize(
    ("hosts", "what"),
    [
        ("203.0.113.1", "--hosts 203.0.113.1 is one host"),
        ("4", "--hosts 4 is a number, but lists the hosts' addresses"),
        ("203.0.113.1,,n2", "--hosts 203.0.113.1,,n2 has an empty name"),
        ("203.0.113.1,n2,203.0.113.1", "--hosts 203.0.113.1,n2,203.0.113.1 names 203.0.113.1 twice"),
        ("[::ffff],[0::ffff]", "names ::ffff twice"),
        ("N2,n2", "--hosts N2,n2 names n2 twice"),
        ("2001:db8::1,n2", "2001:db8::1 is an IPv6 address without brackets\nhint: write [2001:db8::1]"),
        ("203.0.113.1:29500,n2", "203.0.113.1:29500 has a port\nhint: leave it out, and give `--port`"),
        ("[2001:db8::1]:29500,n2", "[2001:db8::1]:29500 has a port"),
        ("203.0.113.300,n2", "'203.0.113.300' is not a valid name or address"),
        ("n 1,n2", "'n 1' is not a valid name or address"),
        ("-x,n2", "'-x' is not a valid name or address"),
        ("0.0.0.0,n2", "0.0.0.0 is not a host's address"),
        ("127.0.0.1,n2", "--hosts 127.0.0.1,n2: n2 cannot reach 127.0.0.1, a loopback address"),
    ],
)
def test_a_list_that_is_no_job_of_several_hosts_is_refused(hosts: str, what: str) -> None:
    assert what in refusal({"ABREAST_HOSTS": hosts, "ABREAST_HOST_RANK": "0"})


@pytest.mark.parametrize("this", ["2", "-1", "one"])
def test_a_number_out_of_range_is_named_with_the_hosts(this: str) -> None:
    assert refusal({**ELSEWHERE, "ABREAST_HOST_RANK": this}) == (
        f"--this {this} (ABREAST_HOST_RANK) is out of range: the 2 hosts of --hosts 203.0.113.1,203.0.113.2 have the numbers "
        "0 to 1\nhint: give this host's number"
    )


def an_own_address() -> str:
    found = [each for each in own_addresses() if ":" not in each]
    if not found:
        pytest.skip("this host has the loopback only")
    return found[0]


def test_a_host_finds_its_number_by_its_own_addresses() -> None:
    own = an_own_address()
    assert is_own(own) and is_own("localhost") and not is_own("203.0.113.1") and not is_own("no.such.host.invalid")
    world = read_world({"ABREAST_HOSTS": f"203.0.113.1,{own},203.0.113.2"})
    assert (world.rank, world.host) == (1, own)


def test_a_host_that_finds_itself_nowhere_or_twice_names_both_lists() -> None:
    assert refusal({"ABREAST_HOSTS": "203.0.113.1,203.0.113.2"}) == (
        f"none of --hosts (203.0.113.1, 203.0.113.2) is among this host's own addresses ({', '.join(own_addresses()) or 'none'})"
        "\nhint: say which one this host is: `--this 0` on the first, `--this 1` on the second"
    )
    assert refusal(LOOPBACK).startswith("2 of --hosts (127.0.0.1, 127.0.0.2) are among this host's own addresses (")


def test_the_number_of_another_host_is_refused() -> None:
    own = an_own_address()
    assert refusal({"ABREAST_HOSTS": f"203.0.113.1,{own}", "ABREAST_HOST_RANK": "0"}) == (
        f"--this 0 (ABREAST_HOST_RANK) is 203.0.113.1, but this host has {own}, number 1\n"
        "hint: give `--this 1` here, or leave it out"
    )


def test_the_own_addresses_come_from_the_tables_of_the_kernel(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "net"
    folder.mkdir(parents=True)
    local = "           |-- 10.0.0.2\n              /32 host LOCAL\n"
    loopback = "     +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
    others = "           |-- 10.0.0.255\n              /32 link BROADCAST\n"
    (folder / "fib_trie").write_text(f"Main:\n{loopback}{local}{others}Local:\n{local}")
    (folder / "if_inet6").write_text(
        "20010db8000000000000000000000001 04 40 00 82 eth0\n"
        "fe8000000000000000fc00fffe000001 04 40 20 80 eth0\n"
        "00000000000000000000000000000001 01 80 10 80 lo\n"
    )
    assert own_addresses(tmp_path) == ("10.0.0.2", "2001:db8::1")
    assert own_addresses(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("environ", "there"),
    [
        (recorded.slurm_22_05(1), "slurm started it as rank 1 of 4"),
        (recorded.torchrun_2_13(0), "torchrun started it as rank 0 of 2"),
        (recorded.skypilot(0), "skypilot started it as rank 0 of 2"),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, "torchrun started it as rank 0 of 1"),
    ],
)
def test_a_launcher_that_counts_otherwise_is_refused_with_both(environ: Variables, there: str) -> None:
    text = refusal({**{name: environ[name] for name in environ if "MASTER" not in name}, **ELSEWHERE})
    assert text.startswith(
        f"--hosts makes this process rank 1 of 2, and {there}\nhint: leave out --hosts (ABREAST_HOSTS)"
    )


def test_a_launcher_that_agrees_and_one_around_all_processes_are_no_contradiction() -> None:
    for environ in (recorded.skypilot(1), recorded.SALLOC_22_05, {"JOB_COMPLETION_INDEX": "1"}):
        assert read_world({**environ, **ELSEWHERE}).source == "--hosts"


def test_another_address_of_rank_0_is_refused() -> None:
    assert refusal({**ELSEWHERE, "MASTER_ADDR": "203.0.113.9"}) == (
        "MASTER_ADDR=203.0.113.9, but --hosts begins with 203.0.113.1\n"
        "hint: unset MASTER_ADDR, or name rank 0's host first"
    )


def run(folder: Path, *options: str, **environ: str) -> Any:
    (folder / "train.py").write_text("print('ran')\n")
    secret = folder / "job.secret"
    secret.touch(0o600)
    secret.write_text("0123456789abcdef\n")
    return subprocess.run(
        [sys.executable, "-m", "abreast", "run", *options, "train.py"],
        cwd=folder,
        env={
            **os.environ,
            "HOME": str(folder),
            "ABREAST_SECRET": "",
            "PYTHONPATH": str(ROOT / "src"),
            "KERAS_BACKEND": "jax",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )


HOSTS = ("--hosts", "203.0.113.1,203.0.113.2")
SECRET = ("--secret-file", "job.secret")


def test_a_dry_run_shows_the_host_and_the_way_to_the_first(tmp_path: Path) -> None:
    by_options = run(tmp_path, "--dry-run", "--json", *HOSTS, *SECRET, "--this", "1", "--port", "7777")
    variables = {**ELSEWHERE, "ABREAST_SECRET_FILE": str(tmp_path / "job.secret"), "MASTER_PORT": "7777"}
    by_variables = run(tmp_path, "--dry-run", "--json", **variables)
    assert by_options.returncode == 0, by_options.stderr
    assert by_options.stdout == by_variables.stdout
    found = json.loads(by_options.stdout)
    assert (found["launcher"], found["rank"], found["size"], found["host"]) == ("--hosts", 1, 2, "203.0.113.2")
    assert (found["one_process_per"], found["rank_0_address"], found["rank_0_port"]) == ("host", "203.0.113.1", 7777)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            (*HOSTS, "--this", "0"),
            "--hosts needs a secret that the hosts share, and none is given\nhint: `(umask 077; ",
        ),
        (
            (*HOSTS, "--this", "0", "--secret-file", "no"),
            "/no cannot be read: No such file or directory\nhint: give every process the same secret",
        ),
        ((*HOSTS, *SECRET, "--devices", "2"), "--devices 2 and --hosts 203.0.113.1,203.0.113.2: the process of a host"),
        ((*HOSTS, *SECRET, "--port", "70000"), "--port 70000 is not a port\nhint: "),
        (("--this", "0"), "--this 0 is given, and --hosts is not\nhint: "),
        (SECRET, "--secret-file job.secret is given, and --hosts is not\nhint: "),
        (("--hosts", "203.0.113.1", *SECRET), "--hosts 203.0.113.1 is one host\nhint: "),
    ],
)
def test_wrong_options_are_errors_before_the_script_runs(tmp_path: Path, options: tuple[str, ...], error: str) -> None:
    done = run(tmp_path, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr and done.stderr.startswith("abreast: error: ")
