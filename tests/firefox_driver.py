"""Drives Debian's Firefox by Marionette, the protocol that it has built in: JSON over a socket. Playwright needs a
Firefox of its own, which nobody has installed, and Selenium a second program."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

BROWSERS = ("firefox-esr", "firefox")
HANG_S = 300
PREFS = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "app.update.enabled": False,
    "ui.systemUsesDarkTheme": 0,
}


def installed() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Firefox:
    """A running browser with one window."""

    def __init__(self, program: str, profile: Path) -> None:
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFS.items()]
        (profile / "user.js").write_text("\n".join(lines))
        self.profile = profile
        self.process = subprocess.Popen(
            [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.socket = self._connect()
        self.received = b""
        self.count = 0
        self._message()  # its greeting
        self.do("WebDriver:NewSession")
        self.do("WebDriver:SetTimeouts", script=1000 * HANG_S, pageLoad=1000 * HANG_S)

    def _connect(self) -> socket.socket:
        """The port is in a file of the profile once the browser listens."""
        file, end = self.profile / "MarionetteActivePort", time.monotonic() + HANG_S
        while not (file.exists() and file.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"Firefox does not listen; it exited with {self.process.poll()}")
            time.sleep(0.05)
        return socket.create_connection(("127.0.0.1", int(file.read_text())), timeout=HANG_S)

    def _message(self) -> Any:
        while b":" not in self.received:
            self._more()
        size, _, rest = self.received.partition(b":")
        self.received = rest
        while len(self.received) < int(size):
            self._more()
        text, self.received = self.received[: int(size)], self.received[int(size) :]
        return json.loads(text)

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise RuntimeError("Firefox closed the connection")
        self.received += data

    def do(self, command: str, **parameters: Any) -> Any:
        self.count += 1
        text = json.dumps([0, self.count, command, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self._message()
        if error:
            raise RuntimeError(f"{command}: {error.get('error')}: {error.get('message')}")
        return result

    def goto(self, url: str) -> None:
        self.do("WebDriver:Navigate", url="about:blank")
        self.do("WebDriver:Navigate", url=url)

    def js(self, script: str, *arguments: Any) -> Any:
        """What a function gives, or the promise of one."""
        body = (
            "const [args, done] = [[...arguments].slice(0, -1), arguments[arguments.length - 1]];"
            f"Promise.resolve(({script})(...args)).then(value => done([null, value]), error => done([String(error), null]));"
        )
        error, value = self.do("WebDriver:ExecuteAsyncScript", script=body, args=list(arguments), sandbox=None)["value"]
        if error:
            raise RuntimeError(error)
        return value

    def resize(self, width: int, height: int) -> None:
        """The page itself, without the browser's own bars."""
        self.do("WebDriver:SetWindowRect", width=width, height=height)
        inner = self.js("() => [innerWidth, innerHeight]")
        self.do("WebDriver:SetWindowRect", width=2 * width - inner[0], height=2 * height - inner[1])

    def keys(self, *keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.do("WebDriver:PerformActions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def click(self, x: float, y: float) -> None:
        place = {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}
        actions = [place, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.do("WebDriver:PerformActions", actions=[{"type": "pointer", "id": "mouse", "actions": actions}])

    def screenshot(self) -> bytes:
        return base64.b64decode(self.do("WebDriver:TakeScreenshot", full=False)["value"])

    def close(self) -> None:
        try:
            self.do("Marionette:Quit")
        except (RuntimeError, OSError):
            self.process.terminate()
        finally:
            self.socket.close()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
