"""The search at one application: cases are made and sent, and both counts of attempts are held against each other.

An attempt is a password that the application's own log shows. Each place of each request has a password of its own, so
a line of that log names the case that made it; each case comes from an address of its own, so the gate's buckets do as
well.
"""

import http.client
import json
import random
import re
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

import edits
from draft import Draft, Guess
from gates import PROXY, address, distant_address
from http2 import Client
from wire import Answer, Connection, write

HOLES = Path(__file__).parent / "holes.jsonl"
FRONTS = {"account": "account", "forwarded": "account", "hosts": "hosts"}
LETTERS = "mqcbd"  # of the guesses of one request: its own; in the query, in a cookie, by Basic, as a duplicate
WAYS = ["plain", "plain", "plain", "account", "account", "proxied", "forwarded", "hosts", "tls", "h2", "h2"]
TOKEN = re.compile(r"zq([0-9a-z]{7})([0-9])([mqcbd])|(good\d{5})", re.I)
SETTLED = 0.4  # seconds after which the gate has settled, where the client waited for its answer
LATE = 3.0  # and where it did not


@dataclass
class Case:
    """Requests of one client, in order: each a door, the edits of it, and whether its password is right."""

    way: str
    requests: list  # of [door, edits, right]
    at_once: bool = False


@dataclass
class Trial:
    """A case that was sent."""

    case: Case
    number: int
    client: str
    front: object
    due: float = 0
    answers: list = field(default_factory=list)
    raw: list = field(default_factory=list)
    wrong: set = field(default_factory=set)  # passwords that the application compared
    right: set = field(default_factory=set)
    users: dict = field(default_factory=dict)  # whose they were, by password
    taken: tuple = (0, 0)
    neutral: bool = False  # the route gives back what is not refused
    unnamed: int = 0  # attempts that the account's bucket does not know
    beyond: int = 0  # and that are more than it has
    session: object = None  # the cookies and fields of its client

    def hole(self):
        """The worst that is wrong, in words, and how often; nothing is `None`."""
        for what, count in (
            ("uncounted", self.uncounted()),
            ("wrongly refunded", self.refunded()),
            ("beyond the limit", self.beyond),
            ("not on the account", self.unnamed),
        ):
            if count:
                return what, count
        return None

    def uncounted(self):
        """Attempts that were not paid for."""
        return max(0, len(self.wrong) + len(self.right) - self.taken[0])

    def refunded(self):
        """Wrong passwords that were given back; where something was not even counted, that comes first."""
        return 0 if self.neutral or self.uncounted() else max(0, min(self.taken[0], len(self.wrong)) - self.taken[1])

    def overpaid(self):
        """Whether a right password was not given back."""
        return bool(self.right) and self.taken[1] > len(self.wrong)

    def is_honest(self):
        """Whether it is what a person sends, and was answered."""
        requests, answers = self.case.requests, self.answers
        return len(requests) == 1 and not requests[0][1] and 200 <= answers[0].status < 400


class Search:
    """What is known of one application so far."""

    def __init__(self, target, fronts, site, seed):
        self.target, self.fronts, self.site = target, fronts, site
        self.random = random.Random(f"{seed} {target.name}")
        self.lock, self.reading = threading.Lock(), threading.Lock()
        self.ways = target.ways or WAYS
        self.number, self.log_end = 0, 0
        self.trials, self.waiting, self.interesting = {}, deque(), {}
        self.counts, self.statuses, self.honest, self.strays, self.findings = Counter(), Counter(), Counter(), [], []
        self.tokens, self.first = {}, deque(holes(target.name))
        self.began, self.seconds, self.over = time.monotonic(), 0, False

    def make(self):
        """One that was a hole once; then new cases, or changes of those that showed something new."""
        with self.lock:
            if self.first:
                return self.first.popleft()
            if self.interesting and self.random.random() < 0.5:
                case = self.changed(self.random.choice(list(self.interesting.values())))
            else:
                count = self.random.choice([1, 1, 1, 2])
                case = Case(self.random.choice(self.ways), [self.fresh() for _ in range(count)])
                case.at_once = count > 1 and self.random.random() < 0.3
            if any(known(finding, case) for finding in self.findings) and self.random.random() < 0.9:
                return None
            return case

    def fresh(self):
        """One request with few edits."""
        door = self.random.choice(self.target.doors)
        count = self.random.choice([0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6])
        return [door.name, [edits.draw(self.random, door) for _ in range(count)], self.random.random() < 0.06]

    def changed(self, case):
        """One edit more, one less, another one, another order or another way."""
        requests = [[door, list(changes), right] for door, changes, right in case.requests]
        one = self.random.choice(requests)
        what = self.random.choice(["more", "more", "less", "other", "way", "again", "door", "right"])
        door = self.target.door(one[0])
        if what in ("less", "other") and one[1]:
            one[1].pop(self.random.randrange(len(one[1])))
        if what in ("more", "other") and len(one[1]) < 8:
            one[1].append(edits.draw(self.random, door))
        if what == "again" and len(requests) < 3:
            requests.append(self.fresh())
        if what == "door":
            one[0] = self.random.choice(self.target.doors).name
        if what == "right":
            one[2] = not one[2]
        way = self.random.choice(self.ways) if what == "way" else case.way
        return Case(way, requests, case.at_once and len(requests) > 1)

    def run(self, case):
        """Sends a case, and leaves it to be judged when the gate has settled."""
        with self.lock:
            self.number += 1
            number = self.number
        behind = case.way in ("proxied", "forwarded")
        client = distant_address(number) if behind else address(number)
        says = ("X-Forwarded-For", client) if case.way == "proxied" else ("Forwarded", f"for={client}")
        trial = Trial(case, number, client, self.fronts[FRONTS.get(case.way, "plain")])
        self.trials[number] = trial
        try:
            drafts = self.drafts(trial)
        except (OSError, http.client.HTTPException) as failure:
            self.trials.pop(number)
            raise ConnectionError(f"no session for {case}") from failure
        source = PROXY if behind else client
        if case.way in ("h2", "h2c"):
            connection = Client(trial.front.secure, source, "h2" if case.way == "h2" else False)
            trial.answers = connection.exchange(drafts, self.site, case.at_once)
            trial.raw = [describe(draft) for draft in drafts]
        else:
            tls = "http/1.1" if case.way == "tls" else False
            connection = Connection(trial.front.secure if tls else trial.front.plain, source, tls)
            messages = [write(draft, self.site, says if behind else None) for draft in drafts]
            trial.raw = [message.raw() for message in messages]
            if case.at_once:
                trial.answers = connection.send_all(messages)
            else:
                trial.answers = [connection.send(message) for message in messages]
            connection.close()
        whole = all(answer.complete for answer in trial.answers)
        trial.due = time.monotonic() + (SETTLED if whole else LATE)
        return trial

    def drafts(self, trial):
        """The case's requests, each with passwords of its own."""
        drafts = []
        for place, (name, changes, right) in enumerate(trial.case.requests):
            guesses = {letter: self.guess(trial.number, place, letter, right) for letter in LETTERS}
            draft = Draft.of(self.target.door(name), guesses, self.target.session_for(trial))
            draft.others = self.target.others
            edits.apply(draft, changes)
            drafts.append(draft)
        return drafts

    def guess(self, number, place, letter, right):
        """A name and a password that no other request has; right is the first one only."""
        token = f"zq{base36(number)}{place}{letter}"
        if right and letter == "m":
            guess = self.target.right(token)
            self.tokens[guess.token] = number
            return guess
        return Guess(token, token, token)

    def read_log(self):
        """Gives the application's lines to the cases that made them."""
        with self.reading, open(self.target.log, "rb") as file:
            file.seek(self.log_end)
            text = file.read()
            whole = text.rfind(b"\n") + 1
            self.log_end += whole
            for line in text[:whole].decode("utf-8", "replace").split("\n"):
                if self.target.compares(line):
                    self.attribute(line)

    def attribute(self, line):
        """One password that was compared."""
        said = self.target.password(line)
        found = TOKEN.search(said)
        number = None
        if found:
            number = self.tokens.get(found[4]) if found[4] else int(found[1], 36)
        trial = self.trials.get(number)
        if trial is None:
            self.counts["stray"] += 1
            self.strays = (self.strays + [line])[-20:]
        elif found[4] or "right-" in said:
            trial.right.add(found[0])
        else:
            trial.wrong.add(found[0].lower())
            trial.users[found[0].lower()] = self.target.user(line)

    def judge(self, trial):
        """Asks the gate what it took, where the application compared anything, and returns the hole if there is one."""
        touched = [self.target.door(name) for name, _, _ in trial.case.requests]
        trial.neutral = self.target.is_neutral(trial, touched)
        if trial.wrong or trial.right:
            trial.taken = trial.front.taken(trial.client)
            if trial.front.by_account and not trial.uncounted() and all(door.named for door in touched):
                trial.unnamed = sum(
                    max(0, owed - trial.front.spent(user))
                    for user, owed in self.target.owed(trial).items()
                    if TOKEN.fullmatch(user)
                )
            trial.beyond = self.target.beyond(trial)
        self.note(trial)
        self.trials.pop(trial.number, None)
        return trial.hole()

    def note(self, trial):
        """Counts, and keeps a case that showed something new."""
        counts, compared = self.counts, len(trial.wrong) + len(trial.right)
        counts["requests"] += len(trial.answers)
        counts["attempts"] += compared
        counts["counted"] += min(trial.taken[0], compared)
        counts["uncounted"] += trial.uncounted()
        counts["wrongly refunded"] += trial.refunded()
        counts["not on the account"] += trial.unnamed
        counts["beyond the limit"] += trial.beyond
        counts["right"] += len(trial.right)
        counts["right, not given back"] += trial.overpaid()
        statuses = [answer.status for answer in trial.answers]
        self.statuses.update(statuses)
        if trial.overpaid() and trial.is_honest():
            self.honest[f"{trial.case.requests[0][0]} by {trial.case.way}, answered {statuses[0]}"] += 1
        shows = tuple(kind_of(answer) for answer in trial.answers)
        doors = tuple(door for door, _, _ in trial.case.requests)
        sight = (doors, trial.case.way, shows, len(trial.wrong), len(trial.right), trial.taken)
        if sight not in self.interesting and (compared or len(self.interesting) < 200):
            self.interesting[sight] = trial.case


def holes(name):
    """What was found at this application in earlier days."""
    for line in HOLES.read_text().splitlines():
        hole = json.loads(line)
        if hole["app"] == name:
            yield Case(hole["way"], hole["requests"])


def known(finding, case):
    """Whether a case holds all that a finding needs."""
    return needs(finding.case) <= needs(case)


def needs(case):
    """Doors and edits; of those with endlessly many values the names will do."""
    parts = {(door, "", "") for door, _, _ in case.requests}
    for door, changes, _ in case.requests:
        parts |= {(door, name, "" if callable(edits.EDITS[name][0]) else str(value)) for name, value in changes}
    return parts


def kind_of(answer: Answer):
    """What of an answer makes it another one."""
    location = (answer.header("location") or "").split("?")[0][:40]
    names = (answer.header("set-cookie") or "").partition("=")[0][:20]
    return answer.status, location, names, answer.complete


def describe(draft):
    """A request of HTTP/2, to be read by people."""
    said = [f"HTTP/2 {draft.method} {draft.whole_path()[:300]}"] + [
        f"{name}: {value[:300]}" for name, value in draft.headers
    ]
    said += [f"cookie: {one[:300]}" for one in draft.cookies] + [
        f"content-type: {draft.type()}",
        f"framing: {draft.framing}",
    ]
    return "\r\n".join(said).encode("latin-1", "replace") + b"\r\n\r\n" + (draft.body() or b"")


def base36(number):
    """Seven letters and digits."""
    text = ""
    for _ in range(7):
        number, rest = divmod(number, 36)
        text = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + text
    return text
