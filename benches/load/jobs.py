"""What is measured: the job that every server gets on one path of the bench, and what the project wants to see there.

How a server is told so is in servers.py, how it is asked in generators.py.
"""

from dataclasses import dataclass, field

from cases import check, question, sign_in, simple

FORM = "username=alice&password=wrong"
FORM_TYPE = "application/x-www-form-urlencoded"
LARGE = 100_000   # bytes of the long answer


@dataclass(frozen=True)
class Limit:
    """A bucket of `count` tokens that fills in `seconds`."""

    count: int
    seconds: int

    def promise(self, elapsed):
        """The most that may be admitted within `elapsed` seconds of a full bucket."""
        return int(self.count + self.count * elapsed / self.seconds)


EMPTY = Limit(10, 300)       # after ten attempts nearly every answer is a 429
WIDE = Limit(1_000_000, 1)   # decided each time, never empty
NARROW = Limit(100, 1)       # refills while it is attacked

LOGIN = simple(b"POST", b"/login", FORM.encode())
CLOSING = LOGIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
BROWSER = sign_in(1024)
LONG_ANSWER = simple(b"GET", b"/large")
QUESTION = question(b"POST", b"/login")
CALL = check(b"POST", b"/login")


@dataclass(frozen=True)
class Job:
    """One path. Goals are the most that a ratio of `cargo build --release` may be (of `scripts/dist`: a tenth less): of
    processor time, and of p50 at a fixed rate."""

    limit: Limit
    tools: tuple = ("wrk",)
    request: bytes = LOGIN
    tls: bool = False
    differs: bool = False   # each request has a head of its own
    workers: int = 1   # two are also compared with one
    endpoint: str = ""   # the kind of the decision endpoint that is asked: only tollgate has one
    goals: dict = field(default_factory=dict)
    p50_goals: dict = field(default_factory=dict)

    @property
    def wordpress(self):
        """Whether tollgate runs the preset, with an address and an account limit by failures."""
        return self.request is BROWSER

    @property
    def large(self):
        """Whether answers are long, and nginx has buffers that suit them."""
        return self.request is LONG_ANSWER

    def goals_of(self, tool):
        """By server that is compared with."""
        return self.p50_goals if tool == "fixed" else self.goals


def beside(nginx, haproxy=None):
    """Goals of a job."""
    return {"nginx": nginx, **({"haproxy": haproxy} if haproxy else {})}


PLAIN = ("oha", "wrk", "fixed")
FLOOD = ("flood",)
JOBS = {
    "refused": Job(EMPTY, PLAIN, goals=beside(0.85, 0.70), p50_goals=beside(1.05)),
    "refused-differing": Job(EMPTY, differs=True, goals=beside(1.20, 0.95)),
    "forwarded": Job(WIDE, PLAIN, goals=beside(1.25, 1.05), p50_goals=beside(1.05)),
    "wordpress-refused": Job(EMPTY, request=BROWSER, goals=beside(0.90)),
    "wordpress-refused-differing": Job(EMPTY, request=BROWSER, differs=True, goals=beside(1.15)),
    "wordpress-forwarded": Job(WIDE, request=BROWSER, goals=beside(1.40, 1.30)),
    "large": Job(WIDE, request=LONG_ANSWER, goals=beside(1.05)),
    "tls-refused": Job(EMPTY, tls=True, goals=beside(0.85)),
    "tls-forwarded": Job(WIDE, tls=True, goals=beside(1.0)),
    "handshakes": Job(EMPTY, ("handshakes",), tls=True, goals=beside(0.54)),
    "http2-refused": Job(EMPTY, ("h2load",), tls=True, goals=beside(0.9)),
    "http2-forwarded": Job(WIDE, ("h2load",), tls=True, goals=beside(0.95)),
    "new-connections": Job(EMPTY, request=CLOSING, goals=beside(1.05)),
    "questions": Job(WIDE, request=QUESTION, endpoint="forward-auth"),
    "calls": Job(WIDE, ("h2load",), request=CALL, endpoint="ext-authz"),
    "flood": Job(EMPTY, FLOOD),
    "flood-differing": Job(EMPTY, FLOOD, differs=True),
    "two-workers-refused": Job(EMPTY, workers=2, goals={"tollgate": 1.10}),
    "two-workers-forwarded": Job(WIDE, workers=2, goals={"tollgate": 1.10}),
}
