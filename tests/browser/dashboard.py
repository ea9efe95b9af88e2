"""The dashboard of the demonstration: at rest and under attack, by mouse and keyboard, in every look.

Usage: dashboard.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import http.client
import json
import os
import re
import sys
import threading
import time

import chromium
from axe import everybody_can_use
from checks import check
from demo import Demo

class Attack:
    """Wrong passwords from a few addresses of 127/8, some of them far above the limit, until it is ended."""

    def __init__(self, gate):
        self.gate, self.ended, self.statuses = gate, threading.Event(), []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        number = 0
        while not self.ended.is_set() and number < 5000:
            number += 1
            # The lower the last digit, the more often it comes.
            last = 10 + min(number % 3, number % 5, number % 7)
            self.statuses.append(post(self.gate, f"127.0.0.{last}", f"guess-{number}"))
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()


def post(gate, source, password):
    """One attempt from an address; its status."""
    connection = http.client.HTTPConnection(gate, timeout=10, source_address=(source, 0))
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", f"user=alice&password={password}", headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def dashboard_of(demo):
    """Address and token, as the demonstration prints them."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = re.search(r"http://operator:(\w+)@(127\.0\.0\.1:\d+)/", "".join(demo.lines))
        if found:
            return found[2], found[1]
        time.sleep(0.05)
    raise SystemExit("tollgate demo named no dashboard; it said:\n" + "".join(demo.lines))


def admin(address, token, method, path, body=None, **headers):
    """Status and JSON of an answer of the admin API."""
    connection = http.client.HTTPConnection(address, timeout=10)
    headers = {"Authorization": f"Bearer {token}", "X-Tollgate-Request": "1", **headers}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text


def press(browser, label):
    """Presses the first button whose label begins so, and answers the question."""
    found = f"[...document.querySelectorAll('button')].find(one => (one.ariaLabel || one.innerText).startsWith({json.dumps(label)}))"
    browser.wait_until(f"!!{found}")
    browser.evaluate(f"{found}.click()")
    browser.wait_until("document.querySelector('#ask').open")
    browser.evaluate("document.querySelector('#toast').innerText = ''; document.querySelector('#ask-yes').click()")
    browser.wait_until("!document.querySelector('#ask').open && document.querySelector('#toast').innerText.endsWith('done.')")
    browser.evaluate("document.activeElement.blur()")


def figure(browser, tile):
    """The number of a tile."""
    return int(re.sub(r"\D", "", browser.evaluate(f"document.querySelector('#{tile}').firstChild.data")) or 0)


def live(browser):
    """Numbers, rows, tokens and decisions move while the attack goes on."""
    browser.wait_until("document.querySelectorAll('#client-rows tr').length >= 3", 20)
    browser.wait_until("document.querySelectorAll('#decisions li').length >= 20", 20)
    browser.wait_until("/[1-9]/.test(document.querySelector('#tile-refused').innerText)", 20)
    before = figure(browser, "tile-attempts")
    browser.wait_until(f"parseInt(document.querySelector('#tile-attempts').innerText.replace(/\\D/g, '')) > {before}", 20)
    check("attempts are counted as they come", True)
    shown = browser.evaluate("document.querySelector('#client-rows tr').innerText")
    check("the most refused client is the busiest attacker", "127.0.0.10" in shown, shown)
    width = "getComputedStyle(document.querySelector('.track.empty i, .track i')).transform"
    first = browser.evaluate(width)
    browser.wait_until(f"{width} != {json.dumps(first)}", 10)
    check("the tokens of a client fill while one looks", True)


def buttons(browser, address, token):
    """Each asks once, and does what it says."""
    press(browser, "Set to observe for limit address")
    limits = admin(address, token, "GET", "/api/v1/limits")[1]["limits"]
    check("a limit is set to observe", limits[0]["mode"] == "observe", limits)
    browser.wait_until("[...document.querySelectorAll('.limit .pill')].some(pill => pill.innerText == 'observe')", 10)
    press(browser, "Set to enforce for limit address")
    limits = admin(address, token, "GET", "/api/v1/limits")[1]["limits"]
    check("and to enforce again", limits[0]["mode"] == "enforce", limits)
    press(browser, "Reset 127.0.0.10")
    check("a client is reset", True)
    press(browser, "+5 tokens for 127.0.0.1")
    check("a client is given tokens", True)
    press(browser, "Exempt 127.0.0.10")
    known = admin(address, token, "GET", "/api/v1/exemptions")[1]
    check("a client is exempt for an hour", "127.0.0.10" in json.dumps(known), known)
    press(browser, "End the exemption of 127.0.0.10")
    known = admin(address, token, "GET", "/api/v1/exemptions")[1]
    check("and the exemption is ended", known["exemptions"] == [], known)


def keyboard(browser):
    """Tab reaches every control in turn, and each shows that it has the focus."""
    browser.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(12):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(browser.evaluate("document.activeElement.ariaLabel || document.activeElement.innerText || document.activeElement.id"))
    check(f"Tab reaches {len(set(seen))} controls", len(set(seen)) >= 8, seen)
    outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    check("and the focus can be seen", outline == "solid", outline)


def pictures(browser, name, directory):
    """A picture of each look."""
    for look, how in {"light": {}, "dark": {"dark": True}, "phone": {"width": 360, "height": 740}}.items():
        browser.look(**{"width": 1280, "height": 1400, **how})
        time.sleep(0.4)
        browser.screenshot(os.path.join(directory, f"dashboard-{name}-{look}.png"))
    browser.look(width=1280, height=1400)


def nothing_foreign(browser, address):
    """No error on the console, nothing that the policy of the page stopped, nothing asked of anybody else."""
    problems = [event for event in browser.events if event["method"] in ("Runtime.exceptionThrown",)]
    entries = [event["params"]["entry"] for event in browser.events if event["method"] == "Log.entryAdded"]
    problems += [entry for entry in entries if entry["level"] == "error" or "Security Policy" in entry["text"]]
    problems += [event for event in browser.events if event["method"] == "Runtime.consoleAPICalled"]
    check("no error on the console, and no violation of its policy", not problems, problems[:3])
    asked = [event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    foreign = [one for one in asked if address not in one and not one.startswith("data:")]
    check(f"{len(asked)} requests, all to the gate", asked and not foreign, foreign[:3])


def main():
    """Runs everything once."""
    directory = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "target/browser")
    os.makedirs(directory, exist_ok=True)
    with Demo(sys.argv[1]) as demo, chromium.Browser(chromium.find()) as browser:
        address, token = dashboard_of(demo)
        for domain in ("Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable")
        browser.look(width=1280, height=1400)
        browser.open(f"http://operator:{token}@{address}/")
        browser.wait_until("document.querySelector('#state').innerText == 'running'")
        pictures(browser, "idle", directory)
        everybody_can_use(browser, "dashboard at rest")
        with Attack(demo.gate):
            live(browser)
            pictures(browser, "attack", directory)
            everybody_can_use(browser, "dashboard under attack")
        buttons(browser, address, token)
        keyboard(browser)
        nothing_foreign(browser, address)
    print(f"screenshots are in {directory}")


if __name__ == "__main__":
    main()
