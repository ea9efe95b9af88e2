"""A browser that is refused earns one attempt: the real page, under its own policy, without cookies or storage.

Usage: challenge.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import http.server
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

import chromium
from axe import everybody_can_use
from checks import check
from demo import heading

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


def started(binary, directory, application):
    """A gate in front of the application, and its port."""
    port, path = free_port(), os.path.join(directory, "gate.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(FILE.format(gate=port, application=application))
    gate = subprocess.Popen([binary, "run", "-c", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return gate, port
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


def visit(browser, port, directory):
    """Two attempts are earned, and no third one."""
    address = f"http://127.0.0.1:{port}/login?next=%2Fhome"
    refused = "Too many sign-in attempts"
    browser.open(address)
    check("the first attempt reaches the application", attempt(browser) == "Wrong")
    for number in (1, 2):
        check(f"attempt {number + 1} is refused", (seen := attempt(browser)) == refused, seen)
        browser.screenshot(os.path.join(directory, f"challenge-{number}.png"))
        if number == 1:
            everybody_can_use(browser, "challenge")
            browser.look()
        print(f"     attempt {number} was earned in {earn(browser):.1f} s", flush=True)
        check("the browser is back at the form", (seen := heading(browser)) == "Form", seen)
        check("with its address", (seen := browser.evaluate("location.href")) == address, seen)
        check("the page keeps nothing", (seen := kept(browser)) == ",0,0", seen)
        check("the earned attempt reaches the application", (seen := attempt(browser)) == "Wrong", seen)
    check("the next one is refused", (seen := attempt(browser)) == refused, seen)
    check("and no third one is for sale", browser.evaluate("document.querySelector('#tollgate-challenge') == null"))
    everybody_can_use(browser, "refusal")
    check("the application saw attempts alone", Application.attempts == ["/login?next=%2Fhome"] * 3, Application.attempts)


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
    with tempfile.TemporaryDirectory() as directory:
        gate, port = started(binary, directory, application.server_port)
        try:
            with chromium.Browser(found) as browser:
                visit(browser, port, screenshots)
        finally:
            gate.terminate()
            gate.wait(30)


if __name__ == "__main__":
    main()
