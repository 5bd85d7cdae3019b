"""A discrete-event engine: tasks that wait for others, and resources that serve one task after the other.

Not here: training, whose tasks `simulate` builds.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The result of a run: the end of all tasks, the end of each task, and the busy time of each resource, in seconds."""

    seconds: float
    ends: Sequence[float]
    busy: dict[str, float]


class Engine:
    """The engine. Tasks are numbered in the order of `add`; a task waits for tasks that were added before it.

    A resource serves tasks in the order in which they become ready. Tasks that become ready together are served by their numbers.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._resource: list[int] = []
        self._waits: list[int] = []
        self._followers: list[list[int]] = []
        self._resources: dict[str, int] = {}

    def add(self, seconds: float, resource: str, after: Sequence[int] = ()) -> int:
        """Add a task that uses a resource for `seconds`, after the tasks in `after`; return its number."""
        number = len(self._seconds)
        self._seconds.append(seconds)
        self._resource.append(self._resources.setdefault(resource, len(self._resources)))
        self._waits.append(len(after))
        self._followers.append([])
        for earlier in after:
            self._followers[earlier].append(number)
        return number

    def run(self) -> Outcome:
        free = [0.0] * len(self._resources)
        busy = [0.0] * len(self._resources)
        ends = [0.0] * len(self._seconds)
        waits = list(self._waits)
        heap: list[tuple[float, int]] = []
        ready = [number for number, count in enumerate(waits) if count == 0]
        now = 0.0
        while ready or heap:
            for number in ready:
                resource = self._resource[number]
                begin = max(now, free[resource])
                ends[number] = free[resource] = begin + self._seconds[number]
                busy[resource] += self._seconds[number]
                heapq.heappush(heap, (ends[number], number))
            now, done = heapq.heappop(heap)
            ready = []
            for follower in self._followers[done]:
                waits[follower] -= 1
                if waits[follower] == 0:
                    ready.append(follower)
        return Outcome(max(ends, default=0.0), ends, dict(zip(self._resources, busy, strict=True)))
