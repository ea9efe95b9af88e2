"""The pages of refusals that waiting does not end, of bans, and of errors, as everybody sees them, without scripts.

Usage: pages.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import json
import os
import re
import sys

import chromium
from axe import reached_by_tab
from checks import check
from dashboard import admin
from demo import heading, usable
from operator_gate import TOKEN, Gate

FILE = """listen = "http://127.0.0.1:{gate}"
upstream = "http://127.0.0.1:{application}"
sandbox = "off"
[admin]
listen = "http://127.0.0.1:{admin}"
token = "{token}"
[route.away]
match = "GET /away"
upstream = "http://127.0.0.1:{closed}"
[route.login]
match = "POST /login"
user = "form:user"
failure = [{{ status = 401 }}]
success = [{{ status = 200 }}]
limits = ["account"]
[route.other]
match = "POST /other"
limits = ["address"]
[limit.address]
rate = "50 per 1h"
[limit.account]
key = "user"
rate = "50 per 1h"
count = "failures"
max_failures = 1
[refuse]
contact = "help@example.org"
"""


def looked_at(browser, name, directory, links):
    """A page that everybody can use. Tab reaches `links`."""
    seen = reached_by_tab(browser)
    check(f"Tab reaches what there is to do: {name}, {heading(browser)}", seen == links, seen)
    browser.screenshot(os.path.join(directory, f"page-{re.sub(r'[^a-z0-9]+', '-', name)}.png"))
    usable(browser, name)


def send(browser, gate, path):
    """Sends a form there."""
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.open("about:blank")
    action = f"http://127.0.0.1:{gate.ports['gate']}{path}"
    page = f"<form method=post action={action}><input name=user value=alice></form>"
    browser.act(f"document.body.innerHTML = {json.dumps(page)}; document.forms[0].submit()")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)


def main():
    """Runs everything once."""
    directory = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "target/browser")
    os.makedirs(directory, exist_ok=True)
    with chromium.Browser(chromium.find()) as browser, Gate(sys.argv[1], FILE) as gate:
        browser.look()
        for path in ("/away", "/a%2"):
            browser.call("Emulation.setScriptExecutionDisabled", value=False)
            browser.open(f"http://127.0.0.1:{gate.ports['gate']}{path}")
            browser.call("Emulation.setScriptExecutionDisabled", value=True)
            looked_at(browser, f"error {path}", directory, ["Back to the page"])
        gate.attempt("127.0.0.1", "alice")
        send(browser, gate, "/login")
        check("time does not help", "Waiting does not help" in browser.evaluate("document.body.innerText"))
        looked_at(browser, "refused for good", directory, ["Back to the form", "help@example.org"])
        status, answer = admin(gate.admin, TOKEN, "PUT", "/api/v1/bans/127.0.0.1", {"for": "2h", "why": "scan"})
        check("the client is banned", status == 200, answer)
        send(browser, gate, "/other")
        check("with its wait", "hour" in browser.evaluate("document.body.innerText"), browser.evaluate("document.body.innerText"))
        looked_at(browser, "banned", directory, ["Back to the form", "help@example.org"])


if __name__ == "__main__":
    main()
