"""Random runs of `fit` as the recorder hears them: windows, and spans that threads have left; a few moments each."""

from __future__ import annotations

from random import Random

from abreast.spans import MAIN, READER, STAGER, Span
from abreast.timeline.windows import Window

MOST_DEVICES = 3


class Run:
    """Epochs of steps with random events in and around them; the training thread does one thing after the other."""

    def __init__(self, random: Random) -> None:
        self.num_devices = random.randint(1, MOST_DEVICES)
        self.windows: list[Window] = []
        self.spans: list[Span] = []
        self._random = random
        self._now = random.randint(1, 20)
        for epoch in range(random.randint(1, 3)):
            self._epoch(epoch)
        self._others()
        self.spans.sort(key=lambda span: span.end_ns)

    def _epoch(self, epoch: int) -> None:
        self._some("wait", most=1)
        for _ in range(self._random.randint(1, 4)):
            self._step(epoch)
            self._pass()
            self.windows[-1].end = self._now
        self.windows[-1].is_last = True
        self._some("wait", "step", "put", "read", most=3)  # validation
        self._pass()

    def _step(self, epoch: int) -> None:
        random, window = self._random, Window(epoch, len(self.windows), self._now, batches=self._random.randint(1, 4))
        self._some("wait", "step", "all-reduce", "put", "read", most=2, often=0.2)  # a `fit` in a callback
        self._pass()
        window.called = self._now
        self._some("wait", "put", most=1, often=0.2)
        self._pass()
        calls = random.choice((0, 1, 1, 1, 2))
        begin = self._now
        for _ in range(calls):
            self._call()
            self._pass()
        window.returned = self._now
        finishes = [random.randint(max(0, begin - 5), self._now + 40) for _ in range(self.num_devices)]
        window.finished = tuple(finishes[: random.choice((0, 0, 1, self.num_devices))])
        self._some("wait", "step", "all-reduce", "put", "read", most=2, often=0.2)
        self._pass()
        window.ended = self._now
        self._some("wait", most=1, often=0.3)  # for the next step
        self.windows.append(window)

    def _call(self) -> None:
        begin = self._now
        self._now += 1
        self._some("wait", "wait", "put", "read", "all-reduce", most=4)
        self._pass()
        self.spans.append(Span(MAIN, "step", begin, self._now, {"kind": 0}))
        if self._random.random() < 0.3:  # in a thread of the framework's
            start = self._random.randint(begin, self._now)
            self.spans.append(Span(MAIN, "all-reduce", start, start + self._random.randint(0, 10), {}))
        if self._random.random() < 0.3:
            start = self._random.randint(begin, self._now)
            self.spans.append(Span(MAIN, "wait", start, self._now, self._numbers()))

    def _some(self, *names: str, most: int, often: float = 0.7) -> None:
        for _ in range(most):
            if self._random.random() < often:
                self._pass()
                start, self._now = self._now, self._now + self._random.randint(1, 6)
                self.spans.append(Span(MAIN, self._random.choice(names), start, self._now, self._numbers()))

    def _others(self) -> None:
        for track, name in ((READER, "read"), (STAGER, "put")):
            start = 0
            while start < self._now:
                start += self._random.randint(0, 20)
                end = start + self._random.randint(1, 15)
                self.spans.append(Span(track, name, start, end, self._numbers()))
                start = end

    def _numbers(self) -> dict[str, float]:
        return {
            "batch": self._random.randint(0, 5),
            "rows": self._random.randint(1, 9),
            "bytes": self._random.randint(1, 9),
        }

    def _pass(self) -> None:
        self._now += self._random.choice((0, 1, 3))
