"""A proxy with its gate, the application behind it, and the load: processes of one measurement, and what they cost."""

import http.client
import re
import subprocess
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

from process import Process, free_address, wait_for
from proxies import ALONE, LUA, PROXIES, REPORTING, Place, nginx_file

BUCKET = 5   # tokens of the limits that count right and wrong passwords
FORM_TYPE = "application/x-www-form-urlencoded"
taken = set()


def address():
    """One that nobody has, and that no process of this run is about to get."""
    while (found := free_address()) in taken:
        pass
    taken.add(found)
    return found


def application(directory, core):
    """Reads each body to its end. 302 to /home is a right password, and 200, for what asks with `?wrong`, a wrong one."""
    directory.mkdir()
    at = address()
    script = """
        ngx.req.read_body()
        if ngx.var.args == "wrong" then
            ngx.header["Content-Length"] = 5
            ngx.print("wrong")
        else
            ngx.status = 302
            ngx.header["Location"] = "/home"
            ngx.header["Content-Length"] = 0
            ngx.eof()
        end"""
    server = ("keepalive_requests 1000000000; keepalive_timeout 1h; client_body_buffer_size 128k;\n"
              f"server {{ listen 127.0.0.1:{at[1]}; location / {{ content_by_lua_block {{{script}\n}} }} }}")
    file = directory / "application.conf"
    file.write_text(nginx_file(directory, LUA, server))
    return Process(["nginx", "-e", "stderr", "-p", directory, "-c", file], core, at, directory / "output")


def gate_file(proxy, mode, endpoint, admin):
    """One bucket that load never empties, and one of BUCKET tokens for each version of HTTP; by account where bodies are shown."""
    reports = mode == REPORTING
    answers = "answers = true\n" if reports and proxy.kind == "forward-auth" else ""
    judged = 'success = { status = 302, location = "/home*" }\n' if reports else ""
    account = 'user = "form:username"\n' if proxy.shows_bodies else ""
    count = 'count = "failures"\n' if reports else ""
    key = "user" if proxy.shows_bodies else "ip"
    route = lambda name, path: f'[route.{name}]\nmatch = "POST {path}"\nlimits = "{name}"\n{account}{judged}\n'
    limit = lambda name, rate: f'[limit.{name}]\nkey = "{key}"\nrate = "{rate}"\n{count}\n'
    exact = [f"http{version}" for version in (1, 2)]
    return "".join([
        f'[endpoint.front]\nkind = "{proxy.kind}"\nlisten = "http://127.0.0.1:{endpoint[1]}"\n{proxy.lines}{answers}\n',
        route("load", "/login"), limit("load", "1000000 per 1s"),
        *(route(name, f"/exact/{name}") + limit(name, f"{BUCKET} per 1h") for name in exact),
        '[proxy]\nthreads = 1\nclient_max = 10_000\nclient_rate = "1000000/s burst 1000000"\n\n',
        f'[log]\naccess = ""\n\n[admin]\nlisten = "http://127.0.0.1:{admin[1]}"\n',
    ])


class Front:
    """A proxy in one mode, with a gate of its own unless it is alone; a context manager."""

    def __init__(self, name, mode, directory, core, application, tollgate):
        self.proxy, self.mode, self.core, self.tollgate = PROXIES[name], mode, core, tollgate
        self.directory, self.stack = directory, ExitStack()
        directory.mkdir()
        http1 = address()
        http2 = address() if self.proxy.has_http2_port else http1
        self.place = Place(directory, http1, http2, address(), application)
        self.admin, self.gate = address(), None

    def __enter__(self):
        with ExitStack() as stack:
            if self.mode != ALONE:
                file = self.directory / "gate.toml"
                file.write_text(gate_file(self.proxy, self.mode, self.place.gate, self.admin))
                command = [self.tollgate, "run", "--config", file]
                self.gate = stack.enter_context(Process(command, self.core, self.place.gate, self.directory / "gate.out"))
            # Files are found from where a proxy starts, and some write to their home.
            inside = ["env", "-C", self.directory, f"HOME={self.directory}"]
            command = [*inside, *self.proxy.command(self.place, self.mode)]
            self.front = stack.enter_context(Process(command, self.core, self.place.http1, self.directory / "output"))
            # Traefik listens before it has read its file.
            wait_for(self._forwards, 20)
            if not self._forwards():
                raise SystemExit(f"{self.directory.name} does not forward: {(self.directory / 'output').read_text()[-2000:]}")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def url(self, version, path):
        """Where it speaks this version of HTTP."""
        return "http://127.0.0.1:%d%s" % ((self.place.http1 if version == 1 else self.place.http2)[1], path)

    def costs(self):
        """Seconds of processor time so far, of the proxy and of its gate."""
        return [sum(process.processor_time()) if process else 0.0 for process in (self.front, self.gate)]

    def settled(self, outcome):
        """Attempts of this outcome so far, by the gate's count."""
        page = get(self.admin, "/metrics")[1]
        lines = re.findall(rf'^tollgate_attempts_total\{{[^}}]*outcome="{outcome}"[^}}]*\}} (\S+)$', page, re.M)
        return sum(map(float, lines))

    def _forwards(self):
        try:
            return get(self.place.http1, "/")[0] == 302
        except OSError:
            return False


def get(address, path):
    """Status and text of an answer."""
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except http.client.HTTPException as broken:
        raise OSError(broken) from broken
    finally:
        connection.close()


@dataclass
class Sample:
    """One run: microseconds of the right answers, and processor time of proxy and gate for a request."""

    p50: float
    p99: float
    proxy: float
    gate: float
    others: dict = field(default_factory=dict)


class Load:
    """h2load, bounded in requests and in time, on the core that is not the proxies'."""

    def __init__(self, directory, core, sizes):
        self.pin, self.log = ["taskset", "-c", str(core)], directory / "h2load.log"
        self.files = {}
        for name, size in sizes.items():
            form = "&username=alice&password=guess"
            # The account comes last: what reads only the beginning of a body finds none.
            text = form[1:] if size is None else "pad=" + "x" * (size - len(form) - 4) + form
            self.files[name] = directory / f"{name.replace(' ', '-')}.form"
            self.files[name].write_text(text)

    def run(self, url, version, body, count, connections, rate=None):
        """The statuses of all answers with their microseconds, of POSTs one at a time on each connection."""
        self.log.unlink(missing_ok=True)
        pace = [f"--rps={rate / connections:g}"] if rate else []
        command = ["h2load", *["--h1"] * (version == 1), "-t", "1", "-m", "1", "-n", str(count), "-c", str(connections), *pace,
                   "-N", "10", "-d", str(self.files[body]), "-H", f"content-type: {FORM_TYPE}", f"--log-file={self.log}", url]
        at_most = 60 + (count / rate if rate else 0)
        subprocess.run([*self.pin, *command], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=at_most)
        rows = [line.split("\t") for line in self.log.read_text().splitlines()]
        return [(int(row[1]), int(row[2])) for row in rows]

    def measure(self, front, version, body, count, connections, rate):
        """One run of right passwords at a fixed rate."""
        before = front.costs()
        answers = self.run(front.url(version, "/login"), version, body, count, connections, rate)
        proxy, gate = (after - earlier for after, earlier in zip(front.costs(), before, strict=True))
        micros = sorted(micros for status, micros in answers if status == 302) or [0]
        statuses = Counter(status for status, _ in answers)
        others = {status: times for status, times in statuses.items() if status != 302}
        if len(answers) != count:
            others["no answer"] = count - len(answers)
        return Sample(micros[len(micros) // 2], micros[min(len(micros) - 1, len(micros) * 99 // 100)],
                      proxy / count * 1e6, gate / count * 1e6, others)

    def right_passwords(self, front, version, count):
        """How many of them were refused; nothing where no answer is reported."""
        if front.mode != REPORTING:
            return None
        url, known = front.url(version, f"/exact/http{version}"), front.settled("success")
        admitted = 0
        # A report may come after its answer, and until then its token is taken. Not all tokens at once: refunds of attempts that
        # overlap leave out what time has returned meanwhile.
        at_once = BUCKET - 1
        for number in range(at_once, count + 1, at_once):
            admitted += sum(status == 302 for status, _ in self.run(url, version, "form", at_once, 1))
            wait_for(lambda number=number: front.settled("success") >= known + number, 5)
        return count // at_once * at_once - admitted

    def wrong_passwords(self, front, version, count, connections):
        """How many of them reached the application, all at once."""
        url = front.url(version, f"/exact/http{version}?wrong")
        return sum(status == 200 for status, _ in self.run(url, version, "form", count, connections))
