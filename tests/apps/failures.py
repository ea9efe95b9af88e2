"""What a limit on failures promises, at the real form: wrong passwords at once, and right ones in a row.

The gate here knows the application by its preset.
"""

import http.client
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gate import Gate
from person import PASSWORD
from processes import free_address
from tap import tap

FILE = Path(__file__).parent / "failures.toml"
CAPACITY, ATTEMPTS = 5, 500
AT_ONCE = 100  # each with connections of its own


def judge(report, app, binary, directory):
    """Both promises, each with a gate whose buckets are full."""
    statuses, arrived = attempts(app, binary, directory / "wrong", wrong_at_once)
    report.equal(f"of {ATTEMPTS} wrong passwords at once reach the application", arrived, CAPACITY)
    report.equal("the others are answered 429", statuses[429], ATTEMPTS - CAPACITY)
    statuses, arrived = attempts(app, binary, directory / "right", right_in_a_row)
    report.equal(f"of {ATTEMPTS} right passwords in a row reach the application", arrived, ATTEMPTS)
    report.equal("and are answered as it answers", statuses, Counter({app.success: ATTEMPTS}))


def attempts(app, binary, directory, act):
    """The statuses that `act` sees through a new gate, and how many attempts reach the application."""
    directory.mkdir()
    middle, outside = free_address(), free_address()
    with tap(middle, app.address) as arrived:
        with Gate.start(binary, FILE, directory, outside, middle, f"{CAPACITY} per 1h", preset=app.preset):
            statuses = Counter(act(app, outside))
    return statuses, sum(exchange.method == "POST" for exchange in arrived)


def wrong_at_once(app, address):
    """All connections stand before the first attempt is sent."""
    barrier = threading.Barrier(AT_ONCE)

    def guess(worker):
        connections = [http.client.HTTPConnection(*address, timeout=60) for _ in range(ATTEMPTS // AT_ONCE)]
        for connection in connections:
            connection.connect()
        barrier.wait()
        for number, connection in enumerate(connections):
            connection.request("POST", app.form, app.attempt(f"wrong-{worker}-{number}"), HEADERS)
        return [connection.getresponse().status for connection in connections]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [status for statuses in pool.map(guess, range(AT_ONCE)) for status in statuses]


def right_in_a_row(app, address):
    """One connection, one sign-in after the other."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    for _ in range(ATTEMPTS):
        connection.request("POST", app.form, app.attempt(PASSWORD), HEADERS)
        answer = connection.getresponse()
        answer.read()
        yield answer.status


HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}
