"""The pages of `tollgate replay --html` and `tollgate site report --format html` as people see them: they open from the disk, and
ask for nothing.

Usage: report.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import datetime
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import chromium
from axe import everybody_can_use
from checks import check

CONFIG = """
listen   = "http://127.0.0.1:8080"
upstream = "http://127.0.0.1:8081"

[route.login]
preset = "wordpress"

[limit.address]
rate = "5 per 5m"
"""

BY_ACCOUNT = """
[limit.account]
key  = "user"
rate = "5 per 5m"
"""


def a_day(path):
    """An access log: 40 people who sign in, some at the second try, an office, and two attackers in the afternoon."""
    chance, lines = random.Random(7), []

    def line(second, address, method, path, status):
        stamp = f"21/Nov/2026:{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} +0000"
        lines.append((second, f'{address} - - [{stamp}] "{method} {path} HTTP/1.1" {status} 4821 "-" "Mozilla/5.0"\n'))

    def person(address, second, wrong):
        for attempt in range(wrong + 1):
            line(second + 9 * attempt, address, "POST", "/wp-login.php", 200 if attempt < wrong else 302)

    for number in range(40):
        person(f"203.0.113.{number}", chance.randrange(25_000, 80_000), chance.choice([0, 0, 0, 1, 2]))
    for number in range(9):
        person("192.0.2.20", 28_800 + 20 * number, chance.choice([0, 1]))
    for second in range(50_000, 54_000, 7):
        line(second, "198.51.100.66", "POST", "/wp-login.php", 200)
    for second in range(52_000, 60_000, 11):
        line(second, f"198.51.100.{chance.choice([67, 68])}", "POST", "/wp-login.php", 200)
    with open(path, "w") as log:
        log.writelines(text for _, text in sorted(lines))


def decisions(path):
    """A decision log of the last hour: a guesser who is refused, and an owner who signs in all the same."""
    begin = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    with open(path, "w") as log:
        for number in range(200):
            at, is_owner = begin + datetime.timedelta(seconds=10 * number), number % 20 == 19
            log.write(json.dumps({
                "time": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "request_id": f"a{number}", "route": "login", "limit": "account",
                "verdict": "admit" if is_owner else "refuse", "client": "203.0.113.9" if is_owner else "198.51.100.66",
                "account": "123456789abc", "left": 0, "wait": 0.0, "outcome": "success" if is_owner else None, "device": is_owner,
                "attack": False, "bait": False, "failures": 0, "nanoseconds": 0, "decided_us": 0.0, "settled_us": None}) + "\n")


def look_at_sites(browser, program, desk, directory):
    """The page of a report on sites."""
    decisions(f"{desk}/decisions.log")
    with open(f"{desk}/sites.toml", "w") as file:
        file.write(CONFIG + BY_ACCOUNT)
    command = [program, "-c", "sites.toml", "site", "report", "--format", "html", "--log", "decisions.log"]
    done = subprocess.run(command, cwd=desk, capture_output=True, text=True, timeout=60)
    check("site report writes its page", done.returncode == 0, done.stderr)
    with open(f"{desk}/sites.html", "w") as page:
        page.write(done.stdout)
    browser.open(f"file://{desk}/sites.html")
    shown = browser.evaluate("document.body.innerText")
    check("it names the guesser", "198.51.100.66" in shown, shown)
    check("and how many owners were helped", re.search(r"Owners helped\s+10", shown), shown)
    browser.screenshot(os.path.join(directory, "sites.png"))
    everybody_can_use(browser, "sites")


def main():
    """Runs everything once."""
    directory = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "target/browser")
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory() as desk, chromium.Browser(chromium.find()) as browser:
        a_day(f"{desk}/access.log")
        with open(f"{desk}/gate.toml", "w") as file:
            file.write(CONFIG)
        command = [os.path.abspath(sys.argv[1]), "replay", "-c", "gate.toml", "--html", "report.html", "access.log"]
        done = subprocess.run(command, cwd=desk, capture_output=True, text=True, timeout=60)
        check("replay writes its page", done.returncode == 0, done.stdout + done.stderr)
        for domain in ("Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable")
        browser.look(width=1100, height=900)
        browser.open(f"file://{desk}/report.html")
        shown = browser.evaluate("document.body.innerText")
        check("it names the attacker", "198.51.100.66" in shown, shown)
        check("and the office, whose people signed in", re.search(r"Likely false positives\s+1 client", shown), shown)
        browser.screenshot(os.path.join(directory, "replay.png"))
        everybody_can_use(browser, "report")
        look_at_sites(browser, os.path.abspath(sys.argv[1]), desk, directory)
        asked = [event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
        check("it asks for nothing else", all(one.startswith(("file:", "data:")) for one in asked), asked)
        wrong = [event for event in browser.events if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")]
        check("nothing is on the console", not wrong, wrong)


if __name__ == "__main__":
    main()
