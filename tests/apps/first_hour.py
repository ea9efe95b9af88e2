"""docs/first-hour.md, walked block by block: a real WordPress, the gate before it, hydra at its form.

Usage: python3 tests/apps/first_hour.py [TOLLGATE]

The blocks run as they stand in the document, but for the addresses: the test takes free ones.
"""

import base64
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

from person import PASSWORD, USER
from processes import free_address, stop_all, url
from report import Wrong
from wordpress import FORM, WordPress

DOCUMENT = Path(__file__).parents[2] / "docs/first-hour.md"
BURST = 10  # the ladder's address limit, as `tollgate init` writes it


def main():
    binary = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/tollgate").absolute()
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="tollgate-hour-", ignore_cleanup_errors=True) as directory:
            walk(Path(directory), binary)
    except Wrong as mismatch:
        sys.exit(f"first hour: WRONG: {mismatch}")
    finally:
        stop_all()
    print(f"first hour: as the document says, {time.monotonic() - began:.0f} s")


def walk(directory, binary):
    """Runs the blocks, and looks after each whether what the document says is so."""
    gate, inside, admin = (free_address() for _ in range(3))
    (directory / "app").mkdir()
    desk = directory / "desk"
    desk.mkdir()
    os.symlink(binary, desk / "tollgate")
    (desk / "yesterday.log").write_text(yesterday())
    (desk / "words").write_text("".join(f"wrong-{number:02}\n" for number in range(30)))
    places = {8080: gate, 8081: inside, 9180: admin}
    with WordPress.start(directory / "app", inside, url(gate)) as site:
        steps = blocks(places, desk)
        desk_of = Desk(desk, steps)
        try:
            first_file(desk_of)
            told = desk_of.run("tollgate replay")
            expect("replay names the limit and the attacker", "address" in told and "198.51.100.66" in told, told)
            observe(desk_of, site, gate)
            look(desk_of, admin)
            enforce(desk_of, site, gate)
            who(desk_of)
            help_people(desk_of, gate)
        finally:
            desk_of.end()


def first_file(desk):
    told = desk.run("tollgate init")
    expect("check finds nothing wrong, and says that every limit observes", "observe" in told, told)


def observe(desk, site, gate):
    desk.run("tollgate run", background=True)
    desk.wait_for_gate(gate)
    before = site.posts()
    for number in range(BURST + 5):
        post(gate, f"observed-{number}")
    expect("while it observes, every attempt reaches WordPress", site.posts() - before == BURST + 5, site.posts() - before)
    told = desk.run("tollgate status")
    expect("the list of buckets names the client", "127.0.0.1" in told, told)


def look(desk, admin):
    """The dashboard, as a browser asks for it once it knows the token; what a browser then does is tested elsewhere."""
    token = base64.b64encode(b"me:" + (desk.directory / "admin.token").read_bytes().strip()).decode()
    expect("the dashboard wants the token", ask(admin, "/") == 401, ask(admin, "/"))
    status = ask(admin, "/", Authorization=f"Basic {token}")
    expect("and opens with it", status == 200, status)


def enforce(desk, site, gate):
    desk.run("sed -i")
    before = site.posts()
    told = desk.run("hydra", check=False)
    reached = site.posts() - before
    # hydra asks the form before each guess; 30 guesses meet a bucket that observing has emptied.
    expect(f"of 30 guesses {reached} reach WordPress", reached <= BURST + 2, reached)
    expect("hydra finds no password", re.search(r"\b0 valid passwords? found", told), told)


def who(desk):
    told = desk.run("tollgate buckets list --refused")
    expect("the refused client is named, and its wait", "127.0.0.1" in told and '"verdict":"refuse"' in told, told)


def help_people(desk, gate):
    desk.run("tollgate buckets exempt")
    desk.run("tollgate buckets reset")
    desk.run("tollgate drain")
    expect("the gate ends well", desk.background.wait(30) == 0, desk.background.returncode)


class Desk:
    """A directory with a shell: runs the blocks of the document in it, in order."""

    def __init__(self, directory, steps):
        self.directory, self.steps, self.background = directory, steps, None

    def run(self, first, background=False, check=True):
        """Runs the next block, which has to begin with `first`, and returns what it said."""
        block = self.steps.pop(0)
        if not block.startswith(first):
            raise Wrong(f"the next block of the document is {block!r}, not `{first} ...`")
        env = {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}", "NO_COLOR": "1"}
        if background:
            block = block.rstrip().removesuffix("&")
            log = open(self.directory / "gate.log", "wb")
            self.background = subprocess.Popen(
                ["bash", "-c", f"exec {block}"], cwd=self.directory, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
            return ""
        done = subprocess.run(
            ["bash", "-euc", block], cwd=self.directory, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )
        if check and done.returncode != 0:
            raise Wrong(f"{block}\nended with {done.returncode}:\n{done.stdout}{done.stderr}\n{self.log()}")
        return done.stdout + done.stderr

    def wait_for_gate(self, gate):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.background.poll() is None:
            with suppress(OSError):
                ask(gate, "/", method="HEAD")
                return
            time.sleep(0.05)
        raise Wrong(f"the gate does not answer:\n{self.log()}")

    def log(self):
        file = self.directory / "gate.log"
        return file.read_text(errors="replace")[-3000:] if file.exists() else ""

    def end(self):
        if self.background and self.background.poll() is None:
            self.background.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.background.wait(10)
            self.background.kill()


def blocks(places, desk):
    """The shell blocks of the document, with other addresses and another place for the socket."""
    text = DOCUMENT.read_text().replace("/run/tollgate/", f"{desk}/")
    for port, (host, other) in places.items():
        text = text.replace(f"127.0.0.1:{port}", f"{host}:{other}").replace(f"-s {port} 127.0.0.1", f"-s {other} {host}")
    return re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)


def yesterday():
    """An access log of a web server: two people who sign in, and one address that guesses for an hour."""
    lines = []

    def line(second, address, method, path, status):
        stamp = f"21/Nov/2026:{9 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} +0000"
        lines.append((second, f'{address} - - [{stamp}] "{method} {path} HTTP/1.1" {status} 4821 "-" "Mozilla/5.0"\n'))

    for second in range(0, 3600, 4):
        line(second, "198.51.100.66", "POST", FORM, 200)
    for start, address in ((100, "203.0.113.7"), (2000, "192.0.2.20")):
        line(start, address, "GET", FORM, 200)
        line(start + 9, address, "POST", FORM, 200)
        line(start + 21, address, "POST", FORM, 302)
        line(start + 22, address, "GET", "/wp-admin/", 200)
    return "".join(text for _, text in sorted(lines, key=lambda entry: entry[0]))


def post(gate, password):
    return ask(gate, FORM, urlencode({"log": USER, "pwd": password}).encode())


def ask(address, path, body=None, method=None, **headers):
    """The status of one request; redirects are not followed."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    if body:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(method or ("POST" if body else "GET"), path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def expect(what, fine, seen):
    print(f"{'ok' if fine else 'FAILED'}   {what}", flush=True)
    if not fine:
        raise Wrong(f"{what}: {seen}")


if __name__ == "__main__":
    main()
