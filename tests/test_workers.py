"""Real worker processes: how they end, the errors that the caller gets, and that nothing is left."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import psutil
import pytest

from abreast import workers
from abreast.backend.torch.channel import Channel, ChannelClosed, channel_pair
from abreast.backend.torch.shards import DESCRIPTOR_BYTES, SharedMemoryReader, SharedMemoryWriter
from abreast.errors import DataError, LaunchError, WorkerError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="worker processes need Linux")

_BODIES = """
import builtins, os, signal, sys, time
from abreast import workers

def main(worker):
    globals()[worker.argument.split(":")[0]](worker)

def wait(worker):
    worker.set_phase(workers.IDLE)
    time.sleep(600)

def wait_for_others(worker):
    worker.set_phase(workers.COMMUNICATING)
    time.sleep(600)

def begin_and_stop(worker):
    worker.set_phase(workers.IDLE)
    os.kill(os.getpid(), signal.SIGSTOP)

def report_environment(worker):
    with open(worker.argument.split(":")[1], "w") as file:
        file.write(os.environ["ABREAST_TEST"] + str(sys.stdin.read() == "") + str("__main__" in sys.modules["__main__"].__name__))
    wait(worker)

class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two

def raise_odd(worker):
    time.sleep(0.3)
    raise OddError("the user's own words", 2)

def raise_built_in(worker):
    raise getattr(builtins, worker.argument.split(":")[1])("from the user's step")

def complain_about_others(worker):
    with worker.phase(workers.COMMUNICATING):
        raise ConnectionError("peer is gone")

def raise_late(worker):
    time.sleep(0.5)
    raise OddError("the cause", 2)

def exit_seven(worker):
    os._exit(7)

def system_exit(worker):
    sys.exit("out of here")

def segfault(worker):
    import ctypes
    ctypes.string_at(0)

def loop(worker):
    worker.set_phase(workers.COMPUTING)
    while True:
        pass

def slow_but_alive(worker):
    for _ in range(30):
        worker.beat()
        time.sleep(0.1)
    wait(worker)

def grandchild(worker):
    import subprocess
    child = subprocess.Popen(["sleep", "600"])
    with open(worker.argument.split(":")[1], "w") as file:
        file.write(str(child.pid))
    wait(worker)

def return_when_closed(worker):
    import socket
    worker.set_phase(workers.IDLE)
    socket.socket(fileno=worker.fds[0]).recv(1)

def sum_shards(worker):
    from abreast.backend.torch.channel import Channel
    from abreast.backend.torch.shards import SharedMemoryReader
    channel, reader = Channel.from_fd(worker.fds[0]), SharedMemoryReader()
    while True:
        try:
            message = channel.receive()
        except ConnectionError:
            return
        if not reader.accept(message):
            tree = reader.read(message.payload)
            channel.send_object(1, float(tree["x"].sum()))
            reader.release(message.payload)
"""

StartJob = Callable[..., workers.Job]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartJob]:
    """Start a job with one body per rank, ranks from 1."""
    (tmp_path / "bodies_of_test_workers.py").write_text(_BODIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    jobs: list[workers.Job] = []

    def start_job(*bodies: str, **options: object) -> workers.Job:
        ranks = range(1, len(bodies) + 1)
        arguments = dict(zip(ranks, bodies, strict=True))
        job = workers.Job("bodies_of_test_workers", ranks, arguments=arguments, name="test", **options)  # type: ignore[arg-type]
        jobs.append(job)
        return job

    yield start_job
    pids = [pid for job in jobs for pid in job.pids.values()]
    for job in jobs:
        job.close()
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not [thread for thread in threading.enumerate() if thread.name == "test-supervisor"]


def failure_of(job: workers.Job, seconds: float = 30.0) -> WorkerError:
    started = time.monotonic()
    failure = job.wait_for_failure(seconds)
    assert failure is not None, "no failure was reported"
    assert time.monotonic() - started < seconds
    with pytest.raises(WorkerError):
        job.check()
    return failure


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_a_worker_gets_its_environment_and_no_input(start: StartJob, tmp_path: Path) -> None:
    report = tmp_path / "report"
    start(f"report_environment:{report}", environments={1: {"ABREAST_TEST": "one"}})
    wait_until(lambda: report.exists() and report.read_text())
    assert report.read_text() == "oneTrueTrue"


def test_a_killed_worker_is_named_and_ends_the_others(start: StartJob) -> None:
    job = start("wait", "wait", "wait")
    pids = job.pids
    time.sleep(0.3)
    os.kill(pids[2], signal.SIGKILL)
    failure = failure_of(job, 5)
    assert failure.rank == 2
    assert "killed (signal 9), perhaps out of memory" in str(failure)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids.values()))


def test_the_hook_is_called_once_after_the_verdict(start: StartJob) -> None:
    seen: list[int | None] = []
    job: workers.Job = start("exit_seven", on_failure=lambda: seen.append(job.failure.rank if job.failure else None))
    assert "exit code 7" in str(failure_of(job))
    wait_until(lambda: seen)
    assert seen == [1]


def test_an_exception_arrives_with_its_traceback(start: StartJob) -> None:
    failure = failure_of(start("wait", "raise_odd"))
    assert failure.rank == 2
    assert "OddError: the user's own words" in failure.message
    assert failure.remote_traceback is not None
    assert "in raise_odd" in failure.remote_traceback


@pytest.mark.parametrize("kind", [FloatingPointError, KeyError, OSError, RuntimeError, StopIteration])
def test_an_exception_of_a_built_in_kind_is_of_that_kind_here(start: StartJob, kind: type[Exception]) -> None:
    failure = failure_of(start(f"raise_built_in:{kind.__name__}"))
    assert isinstance(failure, kind) == (kind is not StopIteration)  # that one would end the user's loop in silence
    assert f"raised {kind.__name__}: " in str(failure) and "hint" not in str(failure)


def test_a_system_exit_is_a_failure(start: StartJob) -> None:
    assert "SystemExit: out of here" in failure_of(start("system_exit")).message


def test_a_segfault_is_named(start: StartJob) -> None:
    assert "SIGSEGV" in failure_of(start("segfault")).message


def test_the_cause_is_named_and_not_the_first_complaint(start: StartJob) -> None:
    failure = failure_of(start("complain_about_others", "raise_late", "complain_about_others"))
    assert failure.rank == 2
    assert "the cause" in failure.message


def test_a_dead_worker_is_named_and_not_the_one_that_complained_first(start: StartJob) -> None:
    job = start("complain_about_others", "wait")
    os.kill(job.pids[2], signal.SIGSTOP)  # so that its death comes after the complaint
    wait_until(lambda: psutil.Process(job.pids[2]).status() == psutil.STATUS_STOPPED)
    wait_until(lambda: not psutil.pid_exists(job.pids[1]) or job._workers[0].complaint)
    os.kill(job.pids[2], signal.SIGKILL)
    assert failure_of(job).rank == 2


def test_a_stopped_worker_is_hung(start: StartJob) -> None:
    job = start("wait", "wait", hang_seconds=2.0)
    wait_until(lambda: job._workers[0].ready)
    os.kill(job.pids[1], signal.SIGSTOP)
    wait_until(lambda: psutil.Process(job.pids[1]).status() == psutil.STATUS_STOPPED)
    failure = failure_of(job)
    assert failure.rank == 1
    assert "stopped answering for 2 s" in failure.message


def test_a_worker_stopped_at_its_start_has_the_same_limit(start: StartJob) -> None:
    failure = failure_of(start("begin_and_stop", hang_seconds=1.0))
    assert "stopped answering for 1 s" in failure.message


def test_a_worker_that_loops_in_a_step_is_hung(start: StartJob) -> None:
    job = start("wait_for_others", "loop", hang_seconds=2.0)
    with job.work():
        failure = failure_of(job)
    assert failure.rank == 2
    assert "did not finish its step for 2 s" in failure.message


def test_a_long_first_step_is_no_hang(start: StartJob) -> None:
    job = start("loop", hang_seconds=1.0)
    with job.work(first=True):
        assert job.wait_for_failure(3.0) is None


def test_progress_within_a_long_step_is_no_hang(start: StartJob) -> None:
    job = start("slow_but_alive", hang_seconds=1.0)
    with job.work():
        assert job.wait_for_failure(2.5) is None


def test_processes_that_a_worker_started_end_with_it(start: StartJob, tmp_path: Path) -> None:
    report = tmp_path / "grandchild"
    job = start(f"grandchild:{report}")
    wait_until(lambda: report.exists() and report.read_text())
    grandchild = int(report.read_text())
    assert psutil.pid_exists(grandchild)
    job.close()
    wait_until(lambda: not _runs(grandchild))


def test_nothing_is_left_when_the_caller_is_killed(start: StartJob, tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path[:0] = {[str(tmp_path), *sys.path]!r}\n"
        "from abreast import workers; import time\n"
        "job = workers.Job('bodies_of_test_workers', [1, 2, 3], arguments={1: 'wait', 2: 'loop', 3: 'wait_for_others'})\n"
        "print(*job.pids.values(), flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        time.sleep(0.5)
        assert len(pids) == 3
        assert all(_runs(pid) for pid in pids)
        caller.kill()
        wait_until(lambda: not any(_runs(pid) for pid in pids))


def test_control_c_reaches_only_the_caller(start: StartJob) -> None:
    job = start("wait")
    time.sleep(2.0)  # until then, a worker on a busy machine may not yet ignore it
    os.kill(job.pids[1], signal.SIGINT)
    assert job.wait_for_failure(1.0) is None
    assert os.getpgid(job.pids[1]) != os.getpgid(0)


def test_a_forked_child_leaves_the_workers_alone(start: StartJob) -> None:
    job = start("wait")
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            try:
                job.check()
            except LaunchError:
                job.close()
                code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert job.wait_for_failure(0.5) is None
    assert _runs(job.pids[1])


def test_starting_and_closing_leaks_nothing(start: StartJob) -> None:
    def cycle() -> None:
        caller, worker = channel_pair()
        job = start("return_when_closed", pass_fds={1: (worker.fileno(),)})
        worker.close()
        caller.close()
        job.close()
        job.close()
        assert job.failure is None

    cycle()
    gc.collect()
    this = psutil.Process()
    # Its own children: those of other tests' workers come and go.
    before = this.num_fds(), this.num_threads(), len(this.children())
    for _ in range(20):
        cycle()
    gc.collect()
    assert (this.num_fds(), this.num_threads(), len(this.children())) == before


def test_a_job_that_fails_leaks_nothing(start: StartJob) -> None:
    this = psutil.Process()
    failure_of(start("exit_seven", "wait"))
    time.sleep(0.5)
    before = this.num_fds()
    for _ in range(3):
        job = start("exit_seven", "wait")
        failure_of(job)
        job.close()
    assert this.num_fds() <= before


def test_a_worker_that_works_on_ends_when_asked(start: StartJob) -> None:
    job = start("loop")
    time.sleep(0.3)
    started = time.monotonic()
    job.close()
    assert time.monotonic() - started < 0.8  # measured 0.2; 1.1 while a worker waited a second for its step to end
    assert job.failure is None


def _runs(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


# The channel and the batch memory.


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    caller, worker = channel_pair()
    yield caller, worker
    caller.close()
    worker.close()


def take(reader: SharedMemoryReader, channel: Channel) -> bytes:
    while True:
        message = channel.receive(5)
        if not reader.accept(message):
            return message.payload


def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    large = os.urandom(1 << 20)

    def send() -> None:
        caller.send(1)
        caller.send(2, large)
        caller.send_object(3, {"a": 1})

    sender = threading.Thread(target=send)
    sender.start()
    assert worker.receive(5).payload == b""
    assert worker.receive(5).payload == large
    assert worker.receive(5).object() == {"a": 1}
    sender.join(5)


def test_waiting_for_a_message_has_a_limit(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(TimeoutError):
        ends[0].receive(0.05)


def test_abort_wakes_waiting_threads(ends: tuple[Channel, Channel]) -> None:
    threading.Timer(0.1, ends[0].abort).start()
    with pytest.raises(ChannelClosed):
        ends[0].receive(5)
    with pytest.raises(ChannelClosed):
        ends[1].receive(5)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "uint8", "bool", "int64", "complex64", "bfloat16", ">f4"]
)
def test_a_shard_arrives_as_it_was(ends: tuple[Channel, Channel], dtype: str) -> None:
    caller, worker = ends
    writer, reader = SharedMemoryWriter(caller), SharedMemoryReader()
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.arange(30).reshape(5, 6).astype(kind)
    tree = ({"x": x, "none": None}, [x[::2], x.T], np.zeros((0, 3), kind), 1.5)
    caller.send(1, writer.write(tree))
    got = reader.read(take(reader, worker))
    np.testing.assert_array_equal(got[0]["x"], x)
    np.testing.assert_array_equal(got[1][0], x[::2])
    np.testing.assert_array_equal(got[1][1], x.T)
    assert got[0]["none"] is None
    assert got[2].shape == (0, 3)
    assert got[3] == 1.5
    assert got[0]["x"].dtype == kind.newbyteorder("=")
    assert all(array.ctypes.data % 64 == 0 for array in (got[0]["x"], got[1][0], got[1][1]))


def test_text_is_refused(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(DataError, match="StringLookup"):
        SharedMemoryWriter(ends[0]).write(np.array(["a", "b"]))


def test_a_slot_is_used_again_only_after_its_release(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    writer, reader = SharedMemoryWriter(caller, max_pending=2), SharedMemoryReader()
    for i in range(2):
        caller.send(1, writer.write(np.full(4, i)))
    first, second = take(reader, worker), take(reader, worker)
    assert not writer.has_room()
    assert reader.read(first)[0] == 0
    reader.release(first)
    assert writer.has_room()
    caller.send(1, writer.write(np.full(4, 2)))
    assert reader.read(take(reader, worker))[0] == 2
    assert reader.read(second)[0] == 1


def test_slots_grow_with_the_shards(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    writer, reader = SharedMemoryWriter(caller), SharedMemoryReader()
    for i, rows in enumerate([1, 10, 100_000, 3, 200_000, 1, 300_000]):
        caller.send(1, writer.write({"x": np.full(rows, i)}))
        descriptor = take(reader, worker)
        assert len(descriptor) == DESCRIPTOR_BYTES
        assert reader.read(descriptor)["x"].sum() == i * rows
        reader.release(descriptor)


def test_many_shapes_are_forgotten_again(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    writer, reader = SharedMemoryWriter(caller), SharedMemoryReader()
    for rows in range(1, 2600):
        caller.send(1, writer.write(np.full(rows, 1, np.int8)))
        descriptor = take(reader, worker)
        assert reader.read(descriptor).sum() == rows
        reader.release(descriptor)
    assert len(reader._layouts) <= 1024


def test_a_worker_process_reads_what_the_caller_writes(start: StartJob) -> None:
    caller, worker = channel_pair()
    job = start("sum_shards", pass_fds={1: (worker.fileno(),)})
    worker.close()
    writer = SharedMemoryWriter(caller)
    for i in range(200):
        caller.send(1, writer.write({"x": np.full((8, 4), i, np.float32)}))
        assert caller.receive(60).object() == 32.0 * i
    assert job.failure is None
    caller.close()  # which ends the worker
    job.close()


def test_the_memory_is_freed_with_its_users(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    this = psutil.Process()
    gc.collect()  # what tests before left
    before = this.num_fds(), len(list(Path("/dev/shm").iterdir()))
    writer, reader = SharedMemoryWriter(caller), SharedMemoryReader()
    caller.send(1, writer.write(np.zeros(1 << 20)))
    reader.read(take(reader, worker))
    writer.close()
    reader.close()
    gc.collect()
    assert (this.num_fds(), len(list(Path("/dev/shm").iterdir()))) == before
    assert not [region for region in Path("/proc/self/maps").read_text().splitlines() if "memfd:abreast" in region]
