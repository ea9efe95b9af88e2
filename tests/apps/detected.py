"""Whether `tollgate init --detect` recognises real applications, and what their presets make of one wrong and one right sign-in.

An application whose answer to a right password proves nothing to the gate says so by `proves`, as for guarded.py. One whose
preset has no markers is left out.

Usage: python3 tests/apps/detected.py [TOLLGATE [NAME...]]
"""

import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environments import fetched
from guarded import interrupted
from person import PASSWORD, USER
from processes import free_address, url
from recorded import APPLICATIONS
from report import Report, Wrong

PRESETS = Path(__file__).parent.parent.parent / "presets"
# Their roots are other pages than the application's, or none.
PATHS = {
    "adminer": "/adminer.php",
    "allauth": "/accounts/login/",
    "django-admin": "/admin/",
    "drupal": "/user/login",
    "flask-security": "/login",
    "simplesamlphp": "/simplesamlphp/module.php/core/authenticate.php?as=people",
    "tomcat": "/examples/jsp/security/protected/",
    "wagtail": "/admin/",
}
BY_SCRIPTS = {"home-assistant", "pgadmin", "snappymail"}
MAIL = {"flask-security"}
SILENT = {"mediawiki"}


def main():
    """All applications, two at a time; what is wrong with one does not hide the others."""
    binary = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/tollgate").absolute()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    wanted, began = sys.argv[2:], time.monotonic()
    marked = [app for app in APPLICATIONS if "\n[detect]\n" in (PRESETS / f"{app.preset}.toml").read_text()]
    chosen = fetched(app for app in marked if not wanted or app.preset in wanted)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda application: trial(application, binary), chosen))
    print(f"{sum(results)} of {len(results)} applications recognised, {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(results) else 1)


def trial(application, binary):
    """One application from start to end; returns whether all was as promised."""
    report, wrong, began = Report(f"{application.title} (detected)"), None, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tollgate-detected-", ignore_cleanup_errors=True) as directory:
        try:
            address = free_address()
            with application.start(Path(directory), address, url(address)) as app:
                detect(app, binary, address, Path(directory), report)
        except Wrong as mismatch:
            wrong = mismatch
        except Exception as failure:  # whatever it is, the other trials go on
            wrong = f"{type(failure).__name__}: {failure}"
    report.note(f"{time.monotonic() - began:.0f} s")
    print(f"{report}\n  {f'WRONG: {wrong}' if wrong else 'recognised'}\n", flush=True)
    return not wrong


def detect(app, binary, address, directory, report):
    """Runs the command, and compares what it says and writes."""
    user = f"{USER}@app.example" if app.preset in MAIL else USER
    place, file = url(address) + PATHS.get(app.preset, "/"), directory / "detected.toml"
    command = [binary, "init", str(file), "--detect", place, "--user", user]
    said = subprocess.run(command, input=f"{PASSWORD}\n", capture_output=True, text=True, timeout=170, check=False)
    for line in said.stderr.splitlines():
        report.note(line)
    report.equal("it ends with", said.returncode, 0)
    report.check(f"the preset `{app.preset}`, by " in said.stderr, f"the preset is {app.preset}")
    report.equal("the file has the preset", tomllib.loads(file.read_text())["route"]["login"]["preset"], app.preset)
    report.check(PASSWORD not in said.stderr + said.stdout + file.read_text(), "the password is nowhere")
    if app.preset in BY_SCRIPTS:
        return report.check("not tried: any sign-in" in said.stderr, "scripts sign in")
    report.check("a failure, as it should be" in said.stderr, "a wrong password is a failure")
    report.equal("the right one is a success", ", a success" in said.stderr, getattr(app, "proves", app.preset not in SILENT))


if __name__ == "__main__":
    main()
