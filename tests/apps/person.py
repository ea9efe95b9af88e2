"""The person with an account, who comes during the attack, mistypes once, gets in, and must not notice anything."""

from dataclasses import dataclass

from browser import Browser, Page
from processes import url

USER = "margaret"
PASSWORD = "correct-horse-battery-staple"
OTHER = "bob"
OTHERS_PASSWORD = "bobs-own-password"
ADDRESS = "127.0.0.77"
ATTEMPTS = 2


@dataclass
class Visit:
    """What the person saw, in this order."""

    picture: Page  # a file that never changes
    form: Page
    assets: list  # statuses of what the form's page loads besides
    typo: Page
    inside: Page
    slowest: float  # seconds


def visit(app, site):
    """Signs in at `site`."""
    browser = Browser(url(site), ADDRESS)
    picture = browser.get(app.file)
    form, assets = browser.load(app.page)
    typo = app.sign_in(browser, form, PASSWORD.upper())
    inside = app.sign_in(browser, browser.get(app.page), PASSWORD)
    return Visit(picture, form, assets, typo, inside, browser.slowest)


def judge(report, app, seen):
    """The application's own pages and nothing else, in the end the one behind the form."""
    direct = Browser(url(app.address), ADDRESS).get(app.file)
    report.check(seen.picture.body == direct.body != b"", f"the person gets {app.file} as the application has it")
    report.check(seen.form.status == 200, f"the person's form: {seen.form}")
    report.equal(f"of its {len(seen.assets)} scripts and styles came", seen.assets.count(200), len(seen.assets))
    report.check(seen.typo.status == 200 and app.failure in seen.typo.text, f"after a typing mistake: {seen.typo}")
    report.check(seen.inside.status == 200 and app.welcome in seen.inside.text, f"the person gets in: {seen.inside}")
    report.note(f"the slowest of the person's pages took {seen.slowest:.2f} s")
