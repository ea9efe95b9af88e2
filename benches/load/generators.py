"""The load: oha, wrk and h2load with the request of a job, and what one run of them showed."""

import http.client
import itertools
import json
import re
import subprocess
import time
from dataclasses import dataclass, field

from jobs import FORM, FORM_TYPE
from process import wait_for
from servers import fill

HANDSHAKES = 1_000   # a second: less than any of the servers can do on one core
FLOOD = 100          # connections
FLOOD_PAUSE = 10     # milliseconds of each before its next request: nearly 10,000 a second
HONEST_PAUSE = 0.004 # seconds from one honest request to the next
HONEST_EACH = 5      # requests of an honest address: fewer than its bucket holds
HONEST = (f"127.{second}.{third}.{last}" for second, third, last in itertools.product(range(1, 250), repeat=3))


@dataclass
class Sample:
    """One run against one server. Times in seconds; the latencies are the generator's, none if it tells none."""

    requests: int
    seconds: float
    admitted: int
    refused: int
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None
    honest: int = 0   # those of the honest clients
    forwarded: int = 0
    logged: int = 0
    user: float = 0.0
    system: float = 0.0
    notes: dict = field(default_factory=dict)

    @property
    def errors(self):
        """Neither admitted nor refused: other answers, broken connections."""
        return self.requests - self.admitted - self.refused

    @property
    def rate(self):
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def processor(self):
        """Seconds of the server's processor time for a request."""
        return (self.user + self.system) / max(1, self.requests)


class Generators:
    """The tools, on the core that is not the server's. Each method is one run against a server."""

    def __init__(self, directory, core):
        self.directory, self.pin = directory, ["taskset", "-c", str(core)]

    def oha(self, server, seconds, connections, rate=None):
        """Waits for the last answers, so each request has one. With `rate`, latency counts from when it was due."""
        fixed = ["-q", str(rate), "--latency-correction"] if rate else []
        # One thread: it has one core.
        text = self._run(["oha", "-z", f"{seconds}s", "-w", "-c", str(connections), *fixed, "--worker-threads", "1",
                          "--no-tui", "--output-format", "json", "-t", "10s", "-m", "POST", "-d", FORM,
                          "-T", FORM_TYPE, server.url("/login")], seconds)
        return oha_sample(json.loads(text))

    def wrk(self, server, seconds, connections):
        """Ends with up to `connections` requests unanswered and uncounted; does not tell 429 from 500."""
        return wrk_sample(self._run(self._wrk(server, seconds, connections), seconds))

    def flood(self, server, seconds, _connections):
        """One client's paced flood, and beside it other clients with tokens: the latencies are theirs."""
        command = self._wrk(server, seconds, FLOOD, FLOOD_PAUSE)
        with subprocess.Popen(self.pin + command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as flood:
            waits = honest_waits(server, seconds)
            sample = wrk_sample(flood.communicate(timeout=30)[0])
        sample.requests, sample.admitted = sample.requests + len(waits), sample.admitted + len(waits)
        sample.honest = len(waits)
        sample.p50, sample.p99, sample.p999 = (sorted(waits)[int(len(waits) * share)] for share in (0.5, 0.99, 0.999))
        return sample

    def _wrk(self, server, seconds, connections, pause=0):
        request = self.directory / "request"
        request.write_bytes(server.job.request)
        values = {"REQUEST": request, "DIFFERS": str(server.job.differs).lower(), "PAUSE": pause}
        script = fill("attempts.lua", values, self.directory / "attempts.lua")
        return ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "-s", str(script), "--timeout", "10s", server.url()]

    def h2load(self, server, seconds, connections):
        """HTTP/2, one stream at a time on each connection; does not tell 429 from 404, and no percentiles."""
        return h2load_sample(self._run([*self._h2load(server), "-c", str(connections), "-D", str(seconds)], seconds))

    def handshakes(self, server, seconds, _connections):
        """Full TLS handshakes, one request each: h2load, unlike wrk, resumes no session. A fixed number of them."""
        count = str(HANDSHAKES * seconds)
        return h2load_sample(self._run([*self._h2load(server), "--h1", "-n", count, "-c", count, "-r", str(HANDSHAKES)], seconds))

    def _h2load(self, server):
        head, body = server.job.request.split(b"\r\n\r\n", 1)
        line, *lines = head.decode().split("\r\n")
        headers = [word for line in lines if line.startswith(("Content-Type:", "TE:")) for word in ("-H", line)]
        data = self.directory / "data"
        data.write_bytes(body)
        return ["h2load", "-t", "1", "-d", str(data), *headers, server.url(line.split()[1])]

    def _run(self, command, seconds):
        return subprocess.run(self.pin + command, check=True, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, timeout=seconds + 30).stdout


def oha_sample(report):
    """From oha's JSON."""
    codes, errors = report["statusCodeDistribution"], report["errorDistribution"]
    latency = {name: value or 0.0 for name, value in report["latencyPercentiles"].items()}
    return Sample(
        requests=sum(codes.values()) + sum(errors.values()), seconds=report["summary"]["total"],
        p50=latency["p50"], p99=latency["p99"], p999=latency["p99.9"],
        admitted=sum(n for code, n in codes.items() if code.startswith("2")), refused=codes.get("429", 0),
        notes={**{code: n for code, n in codes.items() if code[0] != "2" and code != "429"}, **errors})


def honest_waits(server, seconds):
    """The seconds that each sign-in of clients with tokens waited for its answer."""
    waits, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(*server.address, timeout=10, source_address=(next(HONEST), 0))
        connection.connect()
        waits += [honest_wait(connection) for _ in range(HONEST_EACH)]
        connection.close()
    return waits


def honest_wait(connection):
    """One of them, after a pause."""
    time.sleep(HONEST_PAUSE)
    begin = time.monotonic()
    connection.request("POST", "/login", FORM, {"Content-Type": FORM_TYPE})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise SystemExit(f"an honest client was answered {answer.status}")
    return time.monotonic() - begin


def wrk_sample(text):
    """From the line of attempts.lua."""
    report = json.loads(text.strip().splitlines()[-1])
    broken, refused = report["broken"], report["not_2xx"]
    return Sample(
        requests=report["requests"] + broken, seconds=report["micros"] / 1e6,
        p50=report["p50"] / 1e6, p99=report["p99"] / 1e6, p999=report["p999"] / 1e6,
        admitted=report["requests"] - refused, refused=refused, notes={"broken": broken} if broken else {})


def h2load_sample(text):
    """From h2load's text."""
    seconds, unit = re.search(r"finished in ([\d.]+)(ms|s)", text).groups()
    done = {name: int(count) for count, name in re.findall(r"(\d+) (done|errored|timeout|2xx|3xx|4xx|5xx)", text)}
    broken, others = done["errored"], {name: done[name] for name in ("3xx", "5xx", "timeout") if done[name]}
    return Sample(requests=done["done"], seconds=float(seconds) / (1000 if unit == "ms" else 1), admitted=done["2xx"],
                  refused=done["4xx"], notes=others | ({"broken": broken} if broken else {}))


def measure(run, server, upstream):
    """Runs a generator and adds what it cost the server, what reached the upstream and what the log got of it."""
    server.forget_log()
    forwarded, before = upstream.count(), server.process.processor_time()
    sample = run()
    server.flush_log()
    # A server that writes its log later is charged for that too. This one also outlasts the requests wrk gave up.
    wait_for(lambda: server.logged() >= sample.requests, 1)
    after = server.process.processor_time()
    sample.user, sample.system = after[0] - before[0], after[1] - before[1]
    sample.logged, sample.forwarded = server.logged(), upstream.count() - forwarded
    return sample
