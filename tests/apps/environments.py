"""Applications from PyPI, npm and Debian, where scripts/fetch-apps has put them."""

from pathlib import Path

PLACE = Path(__file__).parents[2] / "target" / "apps"


def fetched(applications):
    """Those that are there; what is left out is said."""
    applications = list(applications)
    missing = [app for app in applications if hasattr(app, "place") and not (PLACE / app.place).exists()]
    if missing:
        print(f"left out, for they are not in target/apps: {', '.join(app.title for app in missing)}\n")
    return [app for app in applications if app not in missing]


def python(name, program="python"):
    """A program of an application from PyPI."""
    return str(PLACE / name / "bin" / program)


def npm(name, program):
    """A program of an application from npm."""
    return str(PLACE / name / "node_modules" / ".bin" / program)
