"""The dashboard of an operator who looks for people, unlocks them, and is told what is wrong.

Usage: operator_pages.py BINARY [DIRECTORY FOR SCREENSHOTS]
"""

import json
import os
import sys
import time

import chromium
from axe import everybody_can_use
from checks import check
from dashboard import admin, figure, nothing_foreign, press
from operator_gate import LIMITS, TOKEN, TROUBLED, Gate

CELLS = "[...document.querySelectorAll('#client-rows tr')].map(row => [...row.children].slice(0, 4).map(cell => cell.innerText.trim()))"
LEVELS = "[...document.querySelectorAll('#client-rows .levels')].map(cell => cell.innerText.replace(/\\s+/g, ' ').trim())"


def click(browser, selector):
    """Clicks on an element."""
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def clients(browser, kind):
    """The rows of a kind of clients: name, attempts, refused, would be refused."""
    click(browser, f"[data-kind={kind}]")
    browser.wait_until(f"document.querySelector('[data-kind={kind}]').ariaPressed == 'true'")
    time.sleep(0.5)
    return browser.evaluate(CELLS)


def search(browser, text):
    """Types into the search field and waits for the list."""
    browser.type("#search", text)
    browser.evaluate("document.querySelector('#search').dispatchEvent(new Event('input'))")
    time.sleep(1)
    return browser.evaluate(CELLS)


def one_refused_attempt(browser, gate):
    """Four attempts, of which the last is refused: one row each for the address, its network and the account."""
    statuses = [gate.attempt("203.0.113.9", "alice") for _ in range(4)]
    check("the fourth attempt is refused", statuses == [401, 401, 401, 429], statuses)
    browser.wait_until("document.querySelector('#tile-attempts').innerText == '4'", 20)
    rows = clients(browser, "address")
    check("the address is one row with one refused attempt", rows == [["203.0.113.9", "4", "1", "0"]], rows)
    levels = browser.evaluate(LEVELS)
    check("its candidate stands apart", "address candidate would refuse 2 of 4 attempts" in levels[0], levels)
    click(browser, "[data-by=attempts]")
    rows = clients(browser, "network")
    check("the network is one row", [row[:3] for row in rows] == [["203.0.113.0/24", "4", "0"]], rows)
    rows = clients(browser, "account")
    check("an observing limit refuses nothing", [row[1:] for row in rows] == [["3", "0", "1"]], rows)
    limits = browser.evaluate("document.querySelector('#limits').innerText")
    check("and its card says what would be refused", "1 would be refused of 3 attempts" in limits, limits)


def one_line_an_attempt(browser):
    """The decisions of several limits on one attempt are one line, by the strictest."""
    verdicts = browser.evaluate("[...document.querySelectorAll('#decisions .verdict')].map(one => one.innerText)")
    check("each attempt is one line, the newest first", verdicts == ["refused", "would be refused", "admitted", "admitted"], verdicts)
    click(browser, "#only-refused")
    seen = browser.evaluate("[...document.querySelectorAll('#decisions li')].filter(line => line.checkVisibility()).length")
    check("refused ones can be shown alone", seen == 2, seen)
    click(browser, "#only-refused")


def same_numbers(browser):
    """Tiles, chart and legend show the same numbers, with their unit."""
    browser.wait_until("document.querySelector('#tile-attempts').innerText != '–'")
    seen = browser.evaluate("""[
      chart.plot.data.slice(1).reduce((sum, list) => sum + list.at(-1), 0),
      ['admitted', 'refused', 'observed'].reduce((sum, kind) => sum + Number(document.querySelector(`#legend-${kind}`).innerText), 0),
      chart.plot.data[2].at(-1), Number(document.querySelector('#legend-refused').innerText)]""")
    tiles = [figure(browser, "tile-attempts"), figure(browser, "tile-refused")]
    check("chart, legend and tile show the same number of attempts", seen[:2] == [tiles[0]] * 2, (seen, tiles))
    check("and of refused ones", seen[2:] == [tiles[1]] * 2, (seen, tiles))
    titles = browser.evaluate("chart.plot.axes.map(axis => axis.label)")
    check("both axes have a title with the unit", titles == ["Time of day", "Attempts a minute"], titles)


def search_by_name(browser, gate):
    """An account is found by its name, and reset."""
    rows = search(browser, "alice")
    check("an account is found by its name", len(rows) == 1 and "alice" in rows[0][0] and rows[0][1] == "3", rows)
    levels = browser.evaluate(LEVELS)
    check("with its tokens", "account observe next in" in levels[0], levels)
    press(browser, "Reset alice")
    buckets = admin(gate.admin, TOKEN, "GET", "/api/v1/buckets/user:alice")[1]["buckets"]
    check("and reset", [one["tokens"] for one in buckets if one["limit"] == "account"] == [2], buckets)
    rows = search(browser, "nobody")
    shown = browser.evaluate("document.querySelector('#clients').innerText")
    check("a name without attempts has no row", rows == [] and "No attempt of nobody" in shown, (rows, shown))
    rows = search(browser, "203.0.113.9")
    check("an address is found with its network", [row[0] for row in rows] == ["203.0.113.9", "203.0.113.0/24"], rows)
    search(browser, "")
    browser.evaluate("document.activeElement.blur()")


def mistaken_search(browser):
    """An address with a mistake stops nothing."""
    search(browser, "300.1.1.1")
    shown = browser.evaluate("document.querySelector('#no-clients').innerText + document.querySelector('#state').innerText")
    check("a mistake in an address is told, and stops nothing", "is not an address" in shown and shown.endswith("running"), shown)


def pages(browser, gate):
    """The list has pages of 15 rows."""
    for number in range(40):
        gate.attempt(f"198.51.100.{number + 1}", f"user{number}", "right")
    clients(browser, "address")
    browser.wait_until("document.querySelector('#pager-text').innerText == '1 to 15 of 41'")
    click(browser, "#next")
    browser.wait_until("document.querySelector('#pager-text').innerText == '16 to 30 of 41'")
    click(browser, "#next")
    browser.wait_until("document.querySelector('#pager-text').innerText == '31 to 41 of 41'")
    check("the last page is the end", browser.evaluate("document.querySelector('#next').disabled"))
    click(browser, "#previous")
    click(browser, "#previous")
    browser.wait_until("document.querySelector('#pager-text').innerText == '1 to 15 of 41'")
    check("and one can go back", browser.evaluate("document.querySelector('#previous').disabled"))


def exemptions_and_bans(browser, gate, directory):
    """Both are listed with their end, and a button ends each."""
    for path, why in {"exemptions/192.0.2.0%2F24": "audit", "bans/198.51.100.0%2F24": "scan"}.items():
        status, answer = admin(gate.admin, TOKEN, "PUT", f"/api/v1/{path}", {"for": "2h", "why": why})
        check(f"{path} is set", status == 200, answer)
    browser.wait_until("document.querySelectorAll('#override-rows tr').length == 2")
    rows = browser.evaluate("[...document.querySelectorAll('#override-rows tr')].map(row => row.innerText)")
    check("a ban is listed with its end and its reason", all(word in rows[0] for word in ("198.51.100.0/24", "in 2 h", "scan")), rows)
    check("and so is an exemption", all(word in rows[1] for word in ("192.0.2.0/24", "in 2 h", "audit")), rows)
    everybody_can_use(browser, "dashboard-operator", directory)
    press(browser, "End the ban of 198.51.100.0/24")
    press(browser, "End the exemption of 192.0.2.0/24")
    left = [admin(gate.admin, TOKEN, "GET", f"/api/v1/{kind}")[1][kind] for kind in ("exemptions", "bans")]
    check("both are ended", left == [[], []], left)
    browser.wait_until("document.querySelectorAll('#override-rows tr').length == 0")


def names_of_buttons(browser):
    """The name of a button contains the text on it (WCAG 2.2, 2.5.3)."""
    other = browser.evaluate("[...document.querySelectorAll('button[aria-label]')].filter(one => !one.ariaLabel.includes(one.innerText.trim())).map(one => one.ariaLabel)")
    check("every button is named by its text", other == [], other)


def trouble(browser, gate, directory):
    """Store, upstream and certificate trouble is told in words."""
    gate.attempt("203.0.113.9", "alice")
    for words in ("The store does not answer.", "No upstream answers.", "A certificate has expired.", "old.test"):
        browser.wait_until(f"document.querySelector('#notices').innerText.includes({json.dumps(words)})", 30)
        check(f"it says: {words}", True)
    browser.evaluate("reportWarning({ text: 'certificate_not_issued www.example.org: the authority does not answer' }); refresh()")
    browser.wait_until("document.querySelector('#notices').innerText.includes('A certificate was not renewed')")
    check("and what the gate warns of", True)
    everybody_can_use(browser, "dashboard-trouble", directory)


def opened(browser, gate):
    """Opens the dashboard of a gate."""
    browser.events.clear()
    browser.look(width=1280, height=1400)
    browser.open(f"http://operator:{TOKEN}@{dashboard_of(gate)}/")
    browser.wait_until("document.querySelector('#state').innerText == 'running'")


def dashboard_of(gate):
    """Where the dashboard is."""
    return gate.admin


def main():
    """Runs everything once."""
    directory = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "target/browser")
    os.makedirs(directory, exist_ok=True)
    with chromium.Browser(chromium.find()) as browser:
        for domain in ("Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable")
        with Gate(sys.argv[1], LIMITS) as gate:
            opened(browser, gate)
            one_refused_attempt(browser, gate)
            one_line_an_attempt(browser)
            same_numbers(browser)
            search_by_name(browser, gate)
            pages(browser, gate)
            names_of_buttons(browser)
            exemptions_and_bans(browser, gate, directory)
            nothing_foreign(browser, dashboard_of(gate))
            mistaken_search(browser)
        with Gate(sys.argv[1], TROUBLED) as gate:
            opened(browser, gate)
            trouble(browser, gate, directory)


if __name__ == "__main__":
    main()
