"""A browser that is refused earns one attempt, with scripts and without: the real page, under its own policy, without cookies or
storage.

Usage: challenge.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import contextlib
import http.server
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import chromium
from axe import everybody_can_use, reached_by_tab
from checks import check
from demo import heading, usable

FORM = b"""<!doctype html><html lang="en"><title>Form</title><h1>Form</h1>
<form method="post"><input id="password" name="password"></form>"""
FILE = """listen = "http://127.0.0.1:{gate}"
upstream = "http://127.0.0.1:{application}"
sandbox = "off"
[route.login]
match = "POST /login"
[limit.address]
rate = "1 per 1h"
[refuse]
challenge = "work"
challenge_rate = "2 per 1h"
"""


class Application(http.server.BaseHTTPRequestHandler):
    """A form at every path; the password is always wrong."""

    attempts = []

    def do_GET(self):
        self.answer(FORM)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.attempts.append(self.path)
        self.answer(FORM.replace(b"<h1>Form", b"<h1>Wrong"))

    def answer(self, page):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


def free_port():
    """A port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def started(binary, application):
    """A gate in front of the application; its port."""
    with tempfile.TemporaryDirectory() as directory:
        port, path = free_port(), os.path.join(directory, "gate.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(FILE.format(gate=port, application=application))
        gate = subprocess.Popen([binary, "run", "-c", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            yield port
        finally:
            gate.terminate()
            gate.wait(30)


def wait_for(port):
    """Waits until something listens."""
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the gate did not start")


def attempt(browser):
    """Sends the form. Returns the heading of the answer."""
    browser.type("#password", "wrong")
    browser.press_enter()
    return heading(browser)


def earn(browser):
    """Presses the button and waits for the form. Returns the seconds that it took."""
    begun = time.monotonic()
    browser.act("document.querySelector('#tollgate-challenge button').click()", timeout=120)
    return time.monotonic() - begun


def kept(browser):
    """What the page keeps in the browser."""
    return browser.evaluate("[document.cookie, localStorage.length, sessionStorage.length].join()")


def told(browser, role):
    """Name, value and text of what a screen reader is told of the elements of a role."""
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    texts = {node["nodeId"]: node.get("name", {}).get("value", "") for node in nodes}
    found = [node for node in nodes if node.get("role", {}).get("value") == role and not node["ignored"]]
    return [(texts[one["nodeId"]], one.get("value", {}).get("value"), "".join(texts.get(child, "") for child in one["childIds"])) for one in found]


def while_it_works(browser):
    """The button keeps the focus, and what goes on is told. The work is held meanwhile."""
    browser.evaluate("""{
      const later = window.setTimeout;
      window.setTimeout = (what, ...more) => what.name == 'work' ? window.__work = what : later(what, ...more);
      window.__resume = () => { window.setTimeout = later; window.__work(); };
    }""")
    check("nothing is told before", told(browser, "status") == [("", None, "")], told(browser, "status"))
    seen = reached_by_tab(browser)
    check("Tab reaches the way back and the button", seen == ["Back to the form", "Earn an attempt"], seen)
    browser.evaluate("document.querySelector('#tollgate-challenge button').focus()")
    for kind in ("keyDown", "keyUp"):
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        browser.call("Input.dispatchKeyEvent", type=kind, **key)
    check("a screen reader is told that it works", [one[2] for one in told(browser, "status")] == ["Working …"], told(browser, "status"))
    check("and how far it is", [one[0] for one in told(browser, "progressbar")] == ["Working …"], told(browser, "progressbar"))
    check("the button keeps the focus", browser.evaluate("document.activeElement.innerText") == "Earn an attempt")
    check("and says that it is pressed", browser.evaluate("document.activeElement.ariaDisabled") == "true")
    everybody_can_use(browser, "challenge at work")
    browser.look()
    browser.act("window.__resume()", timeout=120)


def visit(browser, port, directory):
    """Two attempts are earned, and no third one."""
    address = f"http://127.0.0.1:{port}/login?next=%2Fhome"
    refused = "Too many sign-in attempts"
    browser.open(address)
    check("the first attempt reaches the application", attempt(browser) == "Wrong")
    for number in (1, 2):
        check(f"attempt {number + 1} is refused", (seen := attempt(browser)) == refused, seen)
        browser.screenshot(os.path.join(directory, f"challenge-{number}.png"))
        check("who calculates need not wait", not browser.evaluate("document.querySelector('#tollgate-pause')?.checkVisibility()"))
        if number == 1:
            everybody_can_use(browser, "challenge")
            browser.look()
            while_it_works(browser)
        else:
            print(f"     attempt {number} was earned in {earn(browser):.1f} s", flush=True)
        check("the browser is back at the form", (seen := heading(browser)) == "Form", seen)
        check("with its address", (seen := browser.evaluate("location.href")) == address, seen)
        check("the page keeps nothing", (seen := kept(browser)) == ",0,0", seen)
        check("the earned attempt reaches the application", (seen := attempt(browser)) == "Wrong", seen)
    check("the next one is refused", (seen := attempt(browser)) == refused, seen)
    check("and no third one is for sale", browser.evaluate("document.querySelector('#tollgate-challenge') == null"))
    everybody_can_use(browser, "refusal")
    check("the application saw attempts alone", Application.attempts == ["/login?next=%2Fhome"] * 3, Application.attempts)


def nothing_moves(browser):
    """Who wants less motion sees no clock run; the wait is in words, too."""
    moving = "document.getAnimations().filter(one => one.effect.getComputedTiming().duration > 1).length"
    check("the clock runs", browser.evaluate(moving) == 4, browser.evaluate(moving))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    check("nothing moves for who wants less motion", browser.evaluate(moving) == 0, browser.evaluate(moving))
    browser.call("Emulation.setEmulatedMedia", features=[])


def seconds_left(browser):
    """What the page says of the pause."""
    words = browser.evaluate("document.querySelector('#tollgate-pause p').innerText")
    return int(re.search(r"Or wait (\d+) second", words)[1])


def press(browser):
    """Presses the button of the pause by the keyboard."""
    browser.evaluate("document.querySelector('#tollgate-pause button').focus()")
    browser.press_enter()


def without_scripts(browser, port, directory):
    """Half a minute earns an attempt. Who comes early is told how much is left, in his language."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    Application.attempts.clear()
    address = f"http://127.0.0.1:{port}/login?next=%2Fhome&q=%22%3C"
    browser.open(address)
    attempt(browser)
    check("the second attempt is refused", (seen := attempt(browser)) == "Too many sign-in attempts", seen)
    begun = time.monotonic()
    nothing_moves(browser)
    check("the page names half a minute", seconds_left(browser) == 30, seconds_left(browser))
    check("and offers no work", not browser.evaluate("document.querySelector('#tollgate-challenge').checkVisibility()"))
    seen = reached_by_tab(browser)
    check("Tab reaches the way back and the button", seen == ["Back to the form", "I have waited"], seen)
    browser.screenshot(os.path.join(directory, "pause.png"))
    usable(browser, "pause")
    browser.call("Network.enable")
    browser.call("Network.setExtraHTTPHeaders", headers={"Accept-Language": "ar"})
    press(browser)
    check("who comes early is told in his language", browser.evaluate("document.documentElement.lang + document.documentElement.dir") == "arrtl")
    browser.screenshot(os.path.join(directory, "pause-ar.png"))
    usable(browser, "pause in Arabic")
    browser.call("Network.setExtraHTTPHeaders", headers={})
    if time.monotonic() - begun < 28:
        press(browser)
        check("the same pause goes on", 0 < seconds_left(browser) < 30, seconds_left(browser))
    time.sleep(max(0, begun + 30 - time.monotonic()))
    press(browser)
    check("then the browser is back at the form", (seen := heading(browser)) == "Form", seen)
    check("with its address", (seen := browser.evaluate("location.href")) == address, seen)
    check("without a password that was sent again", len(Application.attempts) == 1, Application.attempts)
    check("the earned attempt reaches the application", (seen := attempt(browser)) == "Wrong", seen)
    check("which saw no ticket", not any("proof" in path for path in Application.attempts), Application.attempts)


def main():
    """Runs the gate, the application and the browser."""
    found = chromium.find()
    if not found:
        raise SystemExit("there is no Chromium")
    binary = os.path.abspath(sys.argv[1])
    screenshots = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="tollgate-challenge-")
    os.makedirs(screenshots, exist_ok=True)
    application = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application)
    threading.Thread(target=application.serve_forever, daemon=True).start()
    for seen in (visit, without_scripts):
        with started(binary, application.server_port) as port, chromium.Browser(found) as browser:
            seen(browser, port, screenshots)


if __name__ == "__main__":
    main()
