"""A headless Chromium that opens files and tells what it sees, over its own pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --hide-scrollbars --remote-debugging-pipe"
)


def found() -> str | None:
    """The program, by the variable CHROMIUM or on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """One tab; every call waits for its answer and keeps the events that came before it."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._count, self._session, self._rest = 0, "", b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._receive, 1 << 20)
            if not read:
                raise EOFError("the browser has gone")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                return dict(answer["result"])
            self.events.append(answer)

    def open(self, path: Path, width: int) -> None:
        """Show a file in a window of this width, and wait until it is there."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """What a script of ours finds; the page's own policy forbids its scripts, not the browser's."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console says."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        sent = (event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [str(one["request"]["url"]) for one in sent]

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])


@contextmanager
def opened(program: str) -> Iterator[Tab]:
    """A browser with one tab, ended afterwards."""
    to_read, send = os.pipe()
    receive, to_write = os.pipe()

    def place() -> None:
        os.dup2(to_read, 3)
        os.dup2(to_write, 4)

    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        arguments = [program, *QUIET.split(), f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            arguments, preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        try:
            yield Tab(send, receive)
        finally:
            os.close(send)
            os.close(receive)
            process.kill()
            process.wait()
