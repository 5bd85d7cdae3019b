"""What `two_phases.py` does, without a framework: two loops that a signal interrupts as it does a `fit`.

`python light.py LOG RESULT`. A start takes no time, so many signals can be sent.
"""

import sys
import time

log_file = open(sys.argv[1], "a", buffering=1)


def note(phase):
    log_file.write(f"{phase} {time.monotonic()}\n")


note("import")
import numpy as np  # noqa: E402

from abreast.checkpoints import stop  # noqa: E402
from abreast.checkpoints.folder import newest_good  # noqa: E402
from abreast.checkpoints.names import name_of, prefix_of  # noqa: E402
from abreast.checkpoints.policy import default  # noqa: E402
from abreast.checkpoints.snapshot import Snapshot  # noqa: E402
from abreast.checkpoints.write import write_checkpoint  # noqa: E402

note("build")
STEP_SECONDS = 0.02


def save(number, state):
    name = name_of(number, 0, state["step"])
    write_checkpoint(default().folder, name, Snapshot({}, state))
    return name


def saved(number):
    found = newest_good(default().folder, prefix_of(number))
    return {"step": 0, "value": 0.5} if found is None else dict(found[1].values)


def work():
    end = time.monotonic() + STEP_SECONDS
    while time.monotonic() < end:
        time.sleep(0.001)


def fit(number, num_steps):
    state = saved(number)
    with stop.in_fit():
        note("compile")
        while state["step"] < num_steps:
            work()
            state = {"step": state["step"] + 1, "value": 3.9 * state["value"] * (1 - state["value"])}
            note("steps")
            if stop.requested():
                stop.end(save(number, state))
            if state["step"] % 3 == 0:
                save(number, state)
            if state["step"] % 8 == 0:
                note("validation")
                work()
                note("epoch end")
        save(number, state)
    return state["value"]


values = []
for number in range(2):
    note("between")
    values.append(fit(number, 16))
    note("between")
    time.sleep(0.1)
np.savez(sys.argv[2], values=np.array(values), history="[]")
note("done")
