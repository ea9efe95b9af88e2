"""Real sign-in forms behind the gate, a real brute-force tool at work on them, and a person who must not notice.

    hydra, 127.0.0.1 ---> tap ---> gate ---> tap ---> application
    person, 127.0.0.77 ----------> gate ---> tap ---> application

Usage: python3 tests/apps [TOLLGATE]     the binary, by default target/release/tollgate
"""

import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import attacker
import failures
import person
import verdict
from gate import Gate
from processes import free_address, stop_all, tail, url
from promise import Bucket
from report import Report, Wrong
from tap import tap
from tomcat import Tomcat
from wordpress import WordPress

BUCKET = Bucket(count=12, burst=5)


def main():
    """Both applications at once; what is wrong with one does not hide the other."""
    binary = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/tollgate").absolute()
    if not binary.is_file():
        sys.exit(f"real-apps: {binary} is missing, build it with `cargo build --release`")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda application: trial(application, binary), [WordPress, Tomcat]))
    print(f"{sum(results)} of {len(results)} applications as promised, {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(results) else 1)


def interrupted(number, _):
    """Ends what runs; the trials then fail, clean up and return before the interpreter does."""
    stop_all()
    sys.exit(128 + number)


def trial(application, binary):
    """One application from start to end; returns whether all was as promised."""
    report, wrong = Report(application.title), None
    with tempfile.TemporaryDirectory(prefix="tollgate-apps-", ignore_cleanup_errors=True) as directory:
        try:
            siege(application, binary, Path(directory), report)
        except Wrong as mismatch:
            wrong = mismatch
        except Exception as failure:  # whatever it is, the other trial goes on and this one says where it stood
            wrong = f"{type(failure).__name__}: {failure}\n{last_words(Path(directory))}"
    print(f"{report}\n  {f'WRONG: {wrong}' if wrong else 'as promised'}\n", flush=True)
    return not wrong


def siege(application, binary, directory, report):
    """Sets the scene, lets both sides act at the same time, and judges."""
    inside, middle, outside, street = (free_address() for _ in range(4))
    with ExitStack() as stack:
        app = stack.enter_context(application.start(directory, inside, url(outside)))
        found = attacker.attack_with(person.PASSWORD, app, inside, directory)
        report.equal("without the gate, and with the right password in its list, hydra finds", found, 1)
        before = app.posts()

        arrived = stack.enter_context(tap(middle, inside))
        gate = stack.enter_context(Gate.start(binary, app.gate, directory, outside, middle, BUCKET.rate))
        tried = stack.enter_context(tap(street, outside))
        found, seen = act(app, street, outside, tried, directory)

        report.equal("through the gate, passwords that hydra takes for right", found, 0)
        person.judge(report, app, seen)
        verdict.judge(report, BUCKET, gate, sign_ins(tried), sign_ins(arrived), app.posts() - before)
        if hasattr(app, "success"):
            failures.judge(report, app, binary, directory)


def act(app, street, outside, tried, directory):
    """The attack, and once it has emptied its bucket the visit, which must be over before the attack is."""
    with ThreadPoolExecutor() as pool:
        attack = pool.submit(attacker.attack, app, street, directory)
        while not any(exchange.status == 429 for exchange in tried):
            if attack.done():
                raise Wrong(f"hydra was never refused and found {attack.result()} passwords")
            time.sleep(0.1)
        seen = person.visit(app, outside)
        if attack.done():
            raise Wrong("the attack was over before the person had signed in")
        return attack.result(), seen


def sign_ins(exchanges):
    """The attempts among all requests."""
    return [exchange for exchange in exchanges if exchange.method == "POST"]


def last_words(directory):
    """The ends of all logs, for an unforeseen failure."""
    return "\n".join(f"  {log.name}\n{tail(log, 5)}" for log in sorted(directory.rglob("*.log")))


if __name__ == "__main__":
    main()
