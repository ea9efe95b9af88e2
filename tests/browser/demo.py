"""`tollgate demo` as a person sees it: the sixth wrong password in a row shows a page whose countdown is true.

Usage: demo.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import http.client
import os
import re
import subprocess
import sys
import threading
import time

import chromium
from axe import everybody_can_use
from checks import check

BURST = 5

# What the clock on the page shows: each strip of digits is as far up as digits have gone by.
CLOCK = """
[...document.querySelectorAll('.left i')].map(strip => {
    const style = getComputedStyle(strip), places = style.getPropertyValue('--places');
    const gone = -new DOMMatrix(style.transform).f / (strip.offsetHeight / places);
    return places - 1 - Math.round(gone);
}).join('')
"""


class Demo:
    """A running `tollgate demo`."""

    def __init__(self, binary):
        self.lines = []
        self.process = subprocess.Popen(
            [binary, "demo"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self.gate = self._address()

    def _listen(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def _address(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in list(self.lines):
                found = re.search(r"\bgate\b.*http://(127\.0\.0\.1:\d+)", line)
                if found:
                    return found[1]
            time.sleep(0.05)
        raise SystemExit("tollgate demo named no gate on 127.0.0.1; it said:\n" + "".join(self.lines))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def probe(self):
        """A wrong password without a browser: status and Retry-After. A refused one costs nothing."""
        connection = http.client.HTTPConnection(self.gate, timeout=10)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", "username=alice&password=probe", headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.getheader("Retry-After")


def sleep_until(moment):
    """Sleeps until a moment of the monotonic clock."""
    time.sleep(max(0, moment - time.monotonic()))


def sign_in(browser, password):
    """Types name and password and presses Enter."""
    browser.type("#username", "alice")
    browser.type("#password", password)
    browser.press_enter()


def heading(browser):
    """The heading of the page."""
    return browser.evaluate("document.querySelector('h1').innerText")


def reached(browser):
    """How many attempts the application says have reached it."""
    return int(browser.evaluate("document.querySelector('#count').innerText"))


def portraits(browser, name, directory):
    """Screenshots in light, dark and on a phone."""
    for scheme, look in {"light": {}, "dark": {"dark": True}, "phone": {"width": 390, "height": 780}}.items():
        browser.look(**look)
        browser.screenshot(os.path.join(directory, f"{name}-{scheme}.png"))
    browser.look()


def usable(browser, name):
    """axe-core needs a script to run; the page was made without."""
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    everybody_can_use(browser, name)
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.look()


def six_wrong_passwords(browser, demo, directory):
    """Until the refusal. Returns the wait that the page names, and the moments between which it began."""
    check("the demonstration warns of nothing", not any("warning" in line for line in demo.lines), demo.lines)
    browser.open(f"http://{demo.gate}/")
    portraits(browser, "form", directory)
    usable(browser, "form of the demonstration")
    for number in range(1, BURST + 1):
        sign_in(browser, f"wrong{number}")
        error = browser.evaluate("document.querySelector('#error')?.innerText")
        check(f"wrong password {number} is answered by the application", error == "Login failed", error)
        check(f"the application has seen {number}", reached(browser) == number, reached(browser))
    before = time.monotonic()
    sign_in(browser, "wrong6")
    after = time.monotonic()
    title = heading(browser)
    check("wrong password 6 is refused by the gate", title == "Too many sign-in attempts", title)
    named = browser.evaluate("document.querySelector('time').dateTime")
    wait = int(re.fullmatch(r"PT(\d+)S", named)[1])
    check(f"the page names {wait} seconds", 1 <= wait <= 60 / BURST, wait)
    words = browser.evaluate("document.querySelector('time').innerText")
    check("the words say the same", words == f"{wait} second{'s' * (wait != 1)}", words)
    return wait, before, after


def true_countdown(browser, demo, wait, before, after):
    """The clock is right all the way, one second before its end the gate still refuses, and at its end no more."""
    for gone in (1.5, wait / 2):
        sleep_until(after + gone)
        least = wait - (time.monotonic() - before)
        shown = int(browser.evaluate(CLOCK))
        most = wait - (time.monotonic() - after)
        # It shows begun seconds, and it starts when the page is painted: never early, and hardly late.
        check(f"the clock shows {shown} after {gone:.1f} s", least <= shown <= most + 1.5, (least, shown, most))
    # The refusal fell between the two moments, and the true wait is longer than the named one less a second.
    sleep_until(before + wait - 1.05)
    status, retry_after = demo.probe()
    check("a second before, a direct attempt is still refused", status == 429, status)
    check("and told to come back in a second or two", retry_after in ("1", "2"), retry_after)
    visible = browser.evaluate("getComputedStyle(document.querySelector('.now')).visibility")
    check("and the page still counts", visible == "hidden", visible)


def after_the_wait(browser, wait, after, directory):
    """The link leads to the form by GET, and the right password signs in."""
    browser.wait_until("getComputedStyle(document.querySelector('.now')).visibility == 'visible'")
    early = wait - (time.monotonic() - after)
    check("the page says that the wait is over, and not too early", early < 0.5, early)
    browser.screenshot(os.path.join(directory, "over-light.png"))
    browser.act("document.querySelector('main a').click()")
    check("the link leads back to the form", heading(browser) == "Please sign in", heading(browser))
    check("by GET: nothing more has reached the application", reached(browser) == BURST, reached(browser))
    sleep_until(after + wait)
    sign_in(browser, "wonderland")
    check("at the named second the right password is let in", heading(browser) == "Welcome, Alice", heading(browser))
    check("as attempt 6 of the application", reached(browser) == BURST + 1, reached(browser))


def main():
    """Runs everything once."""
    directory = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "target/browser")
    os.makedirs(directory, exist_ok=True)
    with Demo(sys.argv[1]) as demo, chromium.Browser(chromium.find()) as browser:
        # The page must need no script; what this test evaluates runs all the same.
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.look()
        wait, before, after = six_wrong_passwords(browser, demo, directory)
        portraits(browser, "refused", directory)
        true_countdown(browser, demo, wait, before, after)
        after_the_wait(browser, wait, after, directory)
        portraits(browser, "home", directory)
        usable(browser, "home of the demonstration")
    print(f"screenshots are in {directory}")


if __name__ == "__main__":
    main()
