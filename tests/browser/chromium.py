"""A headless Chromium, spoken to over its debugging pipe; Python's standard library and the browser are all it needs.

The protocol (https://chromedevtools.github.io/devtools-protocol/) is JSON with a zero byte after each message: the
browser reads it from descriptor 3 and writes to descriptor 4. No port is opened.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


EVENTS = 100_000


def find():
    """The path of a Chromium, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One browser with one page. Use it in a `with` statement."""

    def __init__(self, binary):
        self.profile = tempfile.mkdtemp(prefix="tollgate-browser-")
        self.log = open(os.path.join(self.profile, "log"), "w+b")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()
        # The browser's ends have to be 3 and 4 exactly, whatever numbers the pipes were given: the shell puts them there.
        plumbing = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
        self.process = subprocess.Popen(
            ["bash", "-c", plumbing, binary, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        os.close(from_us)
        os.close(to_us)
        self.buffer, self.last_id, self.session = b"", 0, None
        self.events = []  # what the browser told between answers, the oldest first
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, timeout=60, **params):
        """Calls a method of the protocol and returns its result."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer and len(self.events) < EVENTS:
                self.events.append(answer)

    def _read(self, deadline, what):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise TimeoutError(f"no answer to {what}")
            piece = os.read(self.from_browser, 1 << 16)
            if not piece:
                self.log.seek(0)
                raise RuntimeError(f"the browser is gone: {self.log.read().decode(errors='replace')[-2000:]}")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression):
        """The value of a JavaScript expression on the page. Works on pages that allow no script of their own."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_until(self, expression, timeout=30):
        """Waits until an expression is true. A page on its way to the next one counts as not yet."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                if self.evaluate(expression):
                    return
            except RuntimeError as error:
                if "context" not in str(error).lower() and "navigat" not in str(error).lower():
                    raise
            time.sleep(0.02)
        raise TimeoutError(f"never true: {expression}; the page is {self.evaluate('document.body.innerText')!r}")

    def act(self, expression, timeout=30):
        """Does something that leads to another page, and waits until that one is there."""
        self.evaluate("window.__before = true")
        self.evaluate(expression)
        self.wait_until("!window.__before && document.readyState == 'complete'", timeout)

    def open(self, address):
        """Opens an address and waits until the page is there."""
        self.evaluate("window.__before = true")
        answer = self.call("Page.navigate", url=address)
        if answer.get("errorText"):
            raise RuntimeError(f"{address}: {answer['errorText']}")
        self.wait_until("!window.__before && document.readyState == 'complete'")

    def type(self, selector, text):
        """Puts the cursor into a field, empties it and types."""
        self.evaluate(f"(field => {{ field.focus(); field.select(); }})(document.querySelector({json.dumps(selector)}))")
        self.call("Input.insertText", text=text)

    def press_enter(self):
        """Presses Enter where the cursor is, and waits for the next page."""
        self.evaluate("window.__before = true")
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)
        self.wait_until("!window.__before && document.readyState == 'complete'")

    def look(self, dark=False, width=1000, height=700):
        """Sets the colour scheme and the size of the window; widths of a phone count as one."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def screenshot(self, path):
        """Saves what the window shows."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
