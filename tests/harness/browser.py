"""`Browser`: a real browser without a window, driven through Chromium's DevTools protocol over a pipe.

It has no network and its own home folder, and leaves no process or file when it is closed. `find` looks for one:
`ABREAST_BROWSER`, then the usual names. Protocol: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.client import left_behind

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
# Chromium reads the protocol from descriptor 3 and writes it to 4.
_ON_3_AND_4 = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
)
_LIMIT_SECONDS = 30.0


def find() -> str | None:
    """The path of a browser, or None."""
    named = os.environ.get("ABREAST_BROWSER")
    if named:
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Page:
    """The events of a page while it loads: lines of its console, its errors, and the addresses that it requests."""

    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


class Browser:
    """One browser with one tab."""

    def __init__(self, program: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="abreast-browser-")
        self._log = tempfile.TemporaryFile()
        self._received = b""
        self._number = 0
        self._page = Page()
        self._loaded = False
        self._session: str | None = None
        self._start(program)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(
        self,
        path: Path,
        width: int = 1280,
        height: int = 800,
        *,
        dark: bool = False,
        script: bool = True,
        zoom: float = 1,
    ) -> Page:
        """Load a file in a window of that size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=zoom, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self._page, self._loaded = Page(), False
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not self._loaded:
            self._receive(deadline)
        if script:  # two frames later, what an observer of sizes does has been done
            self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")
        return self._page

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = False) -> bytes:
        """Write and return a PNG of the window, or of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        data = base64.b64decode(answer["data"])
        path.write_bytes(data)
        return data

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        deadline = time.monotonic() + _LIMIT_SECONDS
        while (answer := self._receive(deadline)).get("id") != self._number:
            pass
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> list[str]:
        """End the browser; returns lines that name remaining processes and files."""
        self._session = None
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        left = left_behind(self._process.pid, seconds=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        for stream in (self._to, self._from, self._log):
            stream.close()
        self._home.cleanup()
        return left

    def _start(self, program: str) -> None:
        theirs_read, ours_write = _pipe()
        ours_read, theirs_write = _pipe()
        self._to, self._from = os.fdopen(ours_write, "wb"), os.fdopen(ours_read, "rb")
        ends = [str(theirs_read), str(theirs_write)]
        home = self._home.name
        command = [sys.executable, "-c", _ON_3_AND_4, *ends, program, *_FLAGS, f"--user-data-dir={home}/profile"]
        self._process = subprocess.Popen(
            command,
            env=os.environ | {"HOME": home, "TMPDIR": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
            pass_fds=(theirs_read, theirs_write),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what it leaves behind can be found
        )
        os.close(theirs_read)
        os.close(theirs_write)

    def _receive(self, deadline: float) -> dict[str, Any]:
        """The next message; an event is noted on the page."""
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._from.fileno(), 1 << 20) if ready else b""
            if not data:
                raise AssertionError(f"the browser {'died' if ready else 'gave no answer in time'}: {self._said()}")
            self._received += data
        text, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, parameters: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self._page.requests.append(parameters["request"]["url"])
        elif event in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self._page.console.append(json.dumps(parameters))

    def _said(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), 3000, max(0, size - 3000)).decode(errors="replace")


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe, with numbers that leave 3 and 4 free."""
    ends = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return read, write
