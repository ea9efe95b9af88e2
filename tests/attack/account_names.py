"""Account names: spellings that a real database takes for one account, and whether the gate does so as well.

The site tells first whom a spelling reaches. Those that reach an account go through the gate, whose limit all of them
have to share: each guess that reaches the account beyond it is a hole.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

from gate import Gate
from processes import accepts, free_address, running, wait_until
from report import Wrong
from spellings import draw, letters, spelled
from target import HERE, PYTHON, attempts_log
from wire import Connection, Message

LIMIT = 8
BATCH = 400  # names that the site is asked about at once
LEARNED = 2_000  # changes of one account that are kept
ENOUGH = 25  # findings of one column
FILE = """
listen = "$listen"
upstream = "$upstream"

[log]
access = ""
level = "warn"

[admin]
listen = "$admin"
"""
COLUMN = """
[route.{column}]
match = "POST /login/{column}"
user = "form:login"
{length}
[limit.{column}]
key = "user"
rate = "{limit} per 3650d"
routes = ["{column}"]
"""
# All names with a zero byte inside share one limit, since some applications take what is in front of it for the name.
# Where a collation takes signs of ASCII for letters, or one character for eighteen, the gate does not follow.
KNOWN = {"latin1": set("[\\]^`{|}~"), "utf8mb4_unicode_520_ci": {"\ufdfa"}, "wordpress": {"\ufdfa"}}


@dataclass
class Column:
    """One way to compare names, and all that was tried with it."""

    name: str
    accounts: list
    site: tuple
    gate: tuple
    random: random.Random
    counts: Counter = field(default_factory=Counter)
    learned: dict = field(default_factory=lambda: defaultdict(dict))
    findings: list = field(default_factory=list)

    def search(self, seconds):
        """For so long, when every account has used up its limit."""
        self.known = set().union(*(signs for start, signs in KNOWN.items() if self.name.startswith(start)))
        self.connection, self.every = Connection(self.gate, "127.3.0.1"), iter(())
        for account in self.accounts:
            # What was not answered in time was admitted.
            admitted = sum(self.guess(account.encode(), (200, 0)) for _ in range(LIMIT + 2))
            if admitted != LIMIT:
                raise Wrong(f"{self.name}: {admitted} guesses at {account} were admitted, not {LIMIT}")
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            drawn = [self.draw() for _ in range(BATCH)]
            self.counts["names"] += len(drawn)
            for (account, changes), found in zip(drawn, self.reached(drawn)):
                if found is not None and time.monotonic() < over:
                    self.equated(found, account, changes)
        self.connection.close()

    def draw(self):
        """An account, and changes of its name: new ones, or some that changed nothing to the database."""
        account = self.random.choice(self.accounts)
        if self.random.random() < 0.2:
            self.every = self.every if (letter := next(self.every, None)) else letters()
            way, place = self.random.choice(["instead", "before"]), self.random.randrange(len(account))
            return account, [[way, place, letter or "x"]]
        learned = list(self.learned[account].values())
        if learned and self.random.random() < 0.6:
            changes = self.random.choices(learned, k=self.random.choice([1, 2, 2, 3, 4, 6]))
            changes += [draw(self.random, account)] * self.random.choice([0, 0, 1])
        else:
            changes = [draw(self.random, account) for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        return account, changes

    def reached(self, drawn):
        """Whom each of them reaches, by the database alone."""
        names = [b"" if self.is_known(changes) else spelled(account, changes) or b"" for account, changes in drawn]
        connection = http.client.HTTPConnection(*self.site, timeout=60)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/equal/{self.name}", json.dumps([name.hex() for name in names]), headers)
        found = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def is_known(self, changes):
        """Whether the gate is known not to follow."""
        return any(self.known & set(text) for way, _, text in changes if way != "whole")

    def equated(self, found, account, changes):
        """A spelling that the database takes for an account; of its own the gate has to know that."""
        self.counts["equated"] += 1
        if len(changes) == 1 and found == account and len(self.learned[account]) < LEARNED:
            self.learned[account][str(changes)] = changes[0]
        if self.guess(name := spelled(account, changes)):
            odd = self.counts["of the odd names' limit"] < LIMIT and b"\0" in name
            self.counts["of the odd names' limit" if odd else "beyond the limit"] += 1
            if not odd and len(self.findings) < ENOUGH:
                self.finding(found, account, changes)

    def guess(self, name, through=(200,)):
        """Whether a guess at this name comes through the gate, by the answer's status."""
        body = b"login=%s&pw=x" % quote_from_bytes(name, safe="").encode()
        head = f"POST /login/{self.name} HTTP/1.1\r\nHost: app.example\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        status = self.connection.send(Message(head.encode(), body, method="POST")).status
        self.counts[f"answered {status}"] += 1
        return status in through

    def finding(self, found, account, changes):
        """Makes it smaller while it still comes through."""
        smaller = True
        while smaller:
            fewer = [changes[:at] + changes[at + 1 :] for at in range(len(changes)) if len(changes) > 1]
            reached = self.reached([(account, one) for one in fewer])
            alike = (one for one, who in zip(fewer, reached) if who == found and self.guess(spelled(account, one)))
            smaller = next(alike, None)
            changes = smaller or changes
        name = spelled(account, changes)
        if changes not in [one[1] for one in self.findings]:
            self.findings.append((found, changes, name))

    def lines(self):
        """What is said of it in the end."""
        statuses = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()) if "answered" in what)
        figures = ", ".join(
            f"{self.counts[what]} {what}"
            for what in ("names", "equated", "beyond the limit", "of the odd names' limit")
        )
        yield f"  {self.name}: {len(self.accounts)} accounts, {figures}, {statuses}"


class Names:
    """A database behind a site behind a gate."""

    @classmethod
    def hunt(cls, binary, directory, seconds, seed, findings_file):
        """All columns at once; returns what was counted, and what is said of it."""
        inside, listen = free_address(), free_address()
        log = attempts_log(directory)
        env = {"ATTEMPTS": str(log), "DATABASE": cls.kind}
        with cls.database(directory) as more, site(inside, directory, env | more):
            columns = ask(inside, "/columns")
            template = directory / "template.toml"
            template.write_text(FILE + "".join(map(gate_of, columns, columns.values())))
            with Gate.start(binary, template, directory, listen, inside, ""):
                searches = [
                    Column(name, one["accounts"], inside, listen, random.Random(f"{seed} {name}"))
                    for name, one in columns.items()
                ]
                run_all(searches, seconds)
        counts = sum((one.counts for one in searches), Counter())
        reached = Counter((one["column"], one["account"]) for one in map(json.loads, log.read_text().splitlines()))
        more = sum(max(0, count - LIMIT) for (_, account), count in reached.items() if account is not None)
        more -= counts["of the odd names' limit"]
        with open(findings_file, "a") as file:
            for one in searches:
                for found, changes, name in one.findings:
                    file.write(f"{cls.name}: {one.name} takes {name} for {found!r}, and the gate does not: {changes}\n")
        said = (
            f"{cls.name}: {counts['names']} names, {counts['equated']} equated, {more} beyond the limit by its own log"
        )
        return counts, [said, *(line for one in searches for line in one.lines())]


def run_all(searches, seconds):
    """A thread for each column; the first failure is that of all."""
    failures = []

    def run(one):
        try:
            one.search(seconds)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(one,)) for one in searches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def gate_of(column, known):
    """A route and a limit of a column."""
    length = f"user_length = {known['length']}\n" if known["length"] else ""
    return COLUMN.format(column=column, limit=LIMIT, length=length)


@contextmanager
def site(address, directory, env):
    """The site, for the length of the block."""
    command = [str(PYTHON), "-m", "gunicorn", "-w", "2", "--threads", "8", "--preload", "-t", "120"]
    command += ["-b", "%s:%d" % address, "--chdir", str(HERE / "sites"), "accounts_site:app"]
    env = env | {"PYTHONDONTWRITEBYTECODE": "1"}
    with running("accounts_site", command, directory / "server.log", env) as server:
        wait_until(lambda: accepts(address), server)
        yield


def ask(address, path):
    """A document of the site."""
    connection = http.client.HTTPConnection(*address, timeout=20)
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())
