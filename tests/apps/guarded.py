"""Guesses at real applications behind a gate that knows them by their presets, and the owner, who must not notice.

What it wants of an application: `attempt(visitor, user, password)`, the statuses `wrong` and `right` of the answers to it,
whether a success `proves` the password to the gate, and whether it `has_accounts`.

Usage: python3 tests/apps/guarded.py [TOLLGATE [NAME...]]
"""

import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from environments import fetched
from gate import Gate
from person import ADDRESS, PASSWORD, USER
from processes import free_address, stop_all, url
from recorded import APPLICATIONS
from recording import Visitor
from report import Report, Wrong

FILE = Path(__file__).parent / "guarded.toml"
GUESSES = 3  # from one address; some applications bound guesses themselves, at four and more
OF_ACCOUNT = 7
ACCOUNT = f'\n[limit.account]\nkey = "user"\nrate = "{OF_ACCOUNT} per 1h"\ncount = "failures"\n'


def main():
    """All applications, two at a time; what is wrong with one does not hide the others."""
    binary = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/tollgate").absolute()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    wanted, began = sys.argv[2:], time.monotonic()
    judged = [app for app in APPLICATIONS if hasattr(app, "place")]
    chosen = fetched(app for app in judged if not wanted or app.preset in wanted)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda application: trial(application, binary), chosen))
    print(f"{sum(results)} of {len(results)} applications guarded, {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(results) else 1)


def interrupted(number, _):
    """Ends what runs; the trials then fail, clean up and return before the interpreter does."""
    stop_all()
    sys.exit(128 + number)


def trial(application, binary):
    """One application from start to end; returns whether all was as promised."""
    report, wrong, began = Report(f"{application.title} (guarded)"), None, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tollgate-guarded-", ignore_cleanup_errors=True) as directory:
        try:
            guard(application, binary, Path(directory), report)
        except Wrong as mismatch:
            wrong = mismatch
        except Exception as failure:  # whatever it is, the other trials go on
            wrong = f"{type(failure).__name__}: {failure}"
    report.note(f"{time.monotonic() - began:.0f} s")
    print(f"{report}\n  {f'WRONG: {wrong}' if wrong else 'guarded'}\n", flush=True)
    return not wrong


def guard(application, binary, directory, report):
    """One attempt of each kind, then guesses until the limits are reached."""
    inside, outside = free_address(), free_address()
    account = ACCOUNT if application.has_accounts else ""
    with ExitStack() as stack:
        app = stack.enter_context(application.start(directory, inside, url(outside)))
        rate, preset = f"{GUESSES} per 1h", application.preset
        gate = stack.enter_context(
            Gate.start(binary, FILE, directory, outside, inside, rate, preset=preset, account=account)
        )

        def status(source, password, user=USER):
            return app.attempt(Visitor(outside, [], source), user, password).status

        def outcomes(outcome):
            return gate.count("tollgate_attempts_total", outcome=outcome)

        report.equal("a wrong password is answered", status("127.7.0.1", "wrong"), app.wrong)
        report.equal("the gate counts failures", outcomes("failure"), 1)
        report.equal("the right password is answered", status(ADDRESS, PASSWORD), app.right)
        report.equal("the gate counts successes", outcomes("success"), int(app.proves))
        guesses = [status("127.7.0.1", f"wrong-{number}") for number in range(GUESSES)]
        report.equal(f"{GUESSES} more guesses", guesses, [app.wrong] * (GUESSES - 1) + [429])
        report.equal("the right password from that address", status("127.7.0.1", PASSWORD), 429)
        report.equal("the right password from the owner's", status(ADDRESS, PASSWORD), app.right)
        if app.has_accounts:
            spent = GUESSES + (0 if app.proves else 2)
            guesses = [status(f"127.7.0.{10 + number}", "wrong", USER.upper()) for number in range(OF_ACCOUNT - spent + 1)]
            report.equal("guesses in capitals, each from another address, until the last", guesses[-1], 429)
            report.equal("are answered as before", guesses.count(429), 1)


if __name__ == "__main__":
    main()
