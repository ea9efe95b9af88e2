"""What everybody can use: axe-core on a page in light and dark, on a phone, a tablet and a desktop.

`scripts/fetch-axe` fetches it. It runs in the page through the browser's debugging pipe, which the policy of the page
does not hinder.
"""

import os
import time

from checks import check

SCRIPT = "target/tools/axe/node_modules/axe-core/axe.min.js"
WIDTHS = {"phone": 360, "tablet": 768, "desktop": 1280}
HEIGHT = 1400

# What axe finds: a rule with the first elements that break it.
RUN = """
axe.run(document, { resultTypes: ['violations'], rules: { 'target-size': { enabled: true } } }).then(found => found.violations.map(rule =>
  `${rule.id}: ${rule.nodes.slice(0, 3).map(node => `${node.target.join(' ')} (${node.any.map(one => one.message).join('; ')})`).join(', ')}`))
"""


def source():
    """The text of axe-core."""
    with open(os.path.join(os.path.dirname(__file__), "../..", SCRIPT), encoding="utf-8") as file:
        return file.read()


# Of the element with the focus: its text, whether something shows the focus, whether something else lies on its middle.
FOCUSED = """
(one => {
  if (!one || one == document.body) return null;
  const box = one.getBoundingClientRect(), top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return [one.innerText || one.ariaLabel || one.id, getComputedStyle(one).outlineStyle != 'none', one == top || one.contains(top)];
})(document.activeElement)
"""


def reached_by_tab(browser):
    """The texts of what Tab reaches from the beginning of the page. Each shows its focus, and nothing hides it (WCAG 2.2, 2.4.11)."""
    browser.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(30):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        found = browser.evaluate(FOCUSED)
        if found is None or found[0] in seen:
            break
        check(f"the focus of {found[0]!r} can be seen", found[1:] == [True, True], found)
        seen.append(found[0])
    return seen


def everybody_can_use(browser, name, directory=None):
    """No violation and nothing wider than the window in any look. Saves a picture of each, if a directory is given."""
    if not browser.evaluate("typeof axe == 'object'"):
        browser.evaluate(source() + "; 0")
    for dark in (False, True):
        for device, width in WIDTHS.items():
            look = f"{'dark' if dark else 'light'}-{device}"
            browser.look(dark=dark, width=width, height=HEIGHT)
            time.sleep(0.4)
            found = browser.evaluate(RUN)
            check(f"{name}, {look}: axe finds nothing", found == [], found)
            # The window of a phone grows with a page that is too wide.
            wide = browser.evaluate("document.documentElement.scrollWidth")
            check(f"{name}, {look}: it fits the window", wide <= width, wide)
            if directory:
                browser.screenshot(os.path.join(directory, f"{name}-{look}.png"))
    browser.look(width=1280, height=HEIGHT)
