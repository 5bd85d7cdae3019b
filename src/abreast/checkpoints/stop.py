"""Signals that ask a training to stop: SIGTERM and SIGUSR1, as Slurm, Kubernetes and spot machines send them.

Here: the handlers, and the end of the process with exit code 75, "try again". The training itself checks `requested` after each
step, writes its checkpoint and calls `end`. Imports no framework.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from abreast import asked_to_end
from abreast.asked_to_end import EXIT_CODE
from abreast.checkpoints.extensions import initializes_extension
from abreast.checkpoints.long_calls import seen_at_once, set_default_action
from abreast.stderr import tell, tell_once

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
# A shell, Slurm or a supervisor sends one signal to a whole group, so a process may get it twice.
_TOGETHER_SECONDS = 1.0
_AGAIN_SECONDS = 0.02
_CALL_SECONDS = 6.0  # longest wait for a call outside `fit`


class Interrupted(SystemExit):
    """Ends the process with 75, "try again", after a signal asked it to stop. `is_saved`: a checkpoint was written for that."""

    def __init__(self, is_saved: bool = False) -> None:
        super().__init__(EXIT_CODE)
        self.is_saved = is_saved


class _Asked:
    """The requests of this process's signals, while they are watched."""

    def __init__(self) -> None:
        self.process, self.thread = os.getpid(), threading.get_ident()
        self.signal: str | None = None
        self.at_seconds = 0.0
        self.was_raised = False
        self.handlers: dict[int, Callable[..., Any]] = {}  # the script's handlers by signal
        self.is_in_handler = False
        self.is_put_off = self._comes_again = False  # until an extension module is initialized
        self.num_fits = 0

    def take(self, number: int, frame: Any) -> None:
        """The handler of both signals."""
        if self.is_in_handler:  # the script's handler has called the handler that it replaced, this one
            return
        theirs = self.handlers.get(number)
        if theirs is not None:
            self._call(theirs, number, frame)
        if os.getpid() != self.process:  # a child that the script forked has this handler, too
            if theirs is None:
                _die(number)
            return
        is_again, self._comes_again = self._comes_again, False
        if not is_again and self._note(number):
            _die(number)
        if self.num_fits == 0 and theirs is None and not self.was_raised:
            self.is_put_off = initializes_extension(frame)
            if not self.is_put_off:
                self.interrupt()
            timer = threading.Timer(_AGAIN_SECONDS, self._come_again, (number,))
            timer.daemon = True
            timer.start()

    def _come_again(self, number: int) -> None:
        self._comes_again = True
        signal.pthread_kill(self.thread, number)

    def _note(self, number: int) -> bool:
        """Keep the name of the first signal; returns whether this is a second one."""
        if self.signal is None:
            self.signal, self.at_seconds = signal.Signals(number).name, time.monotonic()
        return time.monotonic() - self.at_seconds > _TOGETHER_SECONDS

    def interrupt(self, is_saved: bool = False) -> NoReturn:
        self.was_raised = True
        asked_to_end.note(self.signal or "a signal")
        raise Interrupted(is_saved)

    def _call(self, theirs: Callable[..., Any], number: int, frame: Any) -> None:
        self.is_in_handler = True
        try:
            theirs(number, frame)
        finally:
            self.is_in_handler = False

    def watch(self) -> None:
        """Runs in a thread from the first signal on: sets default actions, and ends a process stuck in a long call."""
        time.sleep(_TOGETHER_SECONDS)
        self._wait_for_extension()
        if self is not _asked:
            return
        if self.process != 1:  # the kernel keeps default actions from the first process
            for number in SIGNALS:
                if number not in self.handlers:
                    set_default_action(number)
        time.sleep(_CALL_SECONDS)
        if self is _asked and self.signal is None and self.num_fits == 0 and not self.handlers:
            _end_here()

    def _wait_for_extension(self) -> None:
        """Wait until the extension module is initialized: the signal repeats, and must not have its default action before."""
        end = time.monotonic() + _CALL_SECONDS
        while self.is_put_off:
            if time.monotonic() > end:
                _end_here()
            time.sleep(_AGAIN_SECONDS)


_asked: _Asked | None = None


def requested() -> str | None:
    """The name of the signal that asked the training to stop, such as `SIGTERM`; None without one."""
    return None if _asked is None else _asked.signal


@contextmanager
def watching(then_ends: bool = False) -> Iterator[None]:
    """Inside, SIGTERM and SIGUSR1 end the process with 75: at once, or, `in_fit`, after the next step.

    A second signal, more than a second later, has its default action. A handler that the script has set is called, too.
    `then_ends`: the process ends after this; if a signal asked for the end, further signals are ignored.
    Only the main thread can set handlers: in other threads, and inside another `watching`, this does nothing.
    """
    global _asked
    if _asked is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked = asked = _Asked()
    _take_signals(asked)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # `restarts.py` blocks them until here
    try:
        with seen_at_once(SIGNALS, asked.watch):
            yield
    finally:
        _give_signals_back(asked, then_ends)
        _asked = None


@contextmanager
def in_fit() -> Iterator[None]:
    """Inside, a signal is only noted: the training checks `requested` after each step, and calls `end` after it has saved.

    Raises `Interrupted` at the beginning and at the end if a signal has come.
    """
    with watching():
        asked = _asked
        if asked is None:  # in another thread, without `abreast run --checkpoint`
            yield
            return
        if threading.current_thread() is threading.main_thread():
            _take_signals(asked)
        _interrupt_if_asked(asked)
        asked.num_fits += 1
        try:
            yield
        finally:
            asked.num_fits -= 1
        _interrupt_if_asked(asked)


def end(saved: str | None) -> NoReturn:
    """End this process with 75, after a line with the signal and the checkpoint `saved`, None if it could not be written.

    Raises `Interrupted`. Other threads than the main one cannot end the process by an exception: there, it ends at once.
    """
    how = ": no checkpoint could be written; the same command goes on from an older one, or begins anew"
    if saved is not None:
        how = f": saved as {saved}; the same command goes on from there"
    tell(f"{requested() or 'another process'} asked for an end{how}")
    if threading.current_thread() is not threading.main_thread():
        _end_here()
    if _asked is not None:
        _asked.interrupt(is_saved=True)
    raise Interrupted(is_saved=True)


def exit_code_after(code: int) -> int:
    """The exit code of a script that ended with `code`: 75 if it caught `Interrupted` and ended with 0."""
    return EXIT_CODE if code == 0 and asked_to_end.by() is not None else code


def _interrupt_if_asked(asked: _Asked) -> None:
    if asked.signal is not None:
        asked.interrupt()


def _take_signals(asked: _Asked) -> None:
    """Set the handlers, also again after a script or a framework's C++ has set others."""
    for number in SIGNALS:
        before = signal.signal(number, asked.take)
        if callable(before) and not isinstance(getattr(before, "__self__", None), _Asked):
            asked.handlers[number] = before
            tell_once(
                f"the script handles {signal.Signals(number).name} itself: in a fit, its handler is called, and a checkpoint is "
                f"written at the next step's end"
            )


def _end_here() -> NoReturn:
    """End the process from a thread."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT_CODE)


def _give_signals_back(asked: _Asked, then_ends: bool) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) != asked.take:
            continue
        if number in asked.handlers or asked.signal is None:
            signal.signal(number, asked.handlers.get(number, signal.SIG_DFL))
        elif then_ends:
            signal.signal(number, signal.SIG_IGN)  # a repeated signal would end the process with another code
        # else `asked.take` stays, and counts a repeated signal once


def _die(number: int) -> NoReturn:
    """End the process by a signal's default action: the shell sees 128 + its number."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # in a container's first process, signals have no default action
