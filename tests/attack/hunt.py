"""One application from start to end: it is started, clients search at the same time, and findings are made small."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from processes import free_address
from report import Wrong
from search import LATE, Case, Search, known

CLIENTS = 12
GRACE = 10  # seconds after the end in which findings are still made small
ENOUGH = 40  # findings of one application, after which the search only counts
SMALLER = 40  # cases that may be spent on making one finding small
WRONG = ("uncounted", "wrongly refunded", "beyond the limit", "honest refused")
BEGINS = 120  # seconds in which an application answers and writes its log, while a machine starts all of them
UNJUDGED = 200  # cases that wait for their verdict; clients wait with them
QUICKLY = 0.1  # seconds in which the gate has settled, nearly always


@dataclass
class Finding:
    """A case that gives an attempt for nothing, as small as it was made."""

    case: Case
    what: str  # uncounted, wrongly refunded, or not on the account
    count: int
    raw: list
    statuses: list
    after_requests: int
    after_seconds: float
    again: int = 1

    def text(self, name):
        """For people."""
        way, requests = self.case.way, json.dumps(self.case.requests)
        after = f"{self.after_requests} requests and {self.after_seconds:.1f} s"
        head = f"{name}: {self.count} {self.what}, found after {after}, {self.again} times\n"
        head += f"  way: {way}, at once: {self.case.at_once}, answers: {self.statuses}\n  edits: {requests}\n"
        raw = (
            part if len(part) < 2_000 else part[:1_500] + b" ...(%d bytes)... " % len(part) + part[-300:]
            for part in self.raw
        )
        return head + "".join(f"  raw: {one!r}\n" for one in raw)


def hunt(target_class, binary, directory, seconds, seed, findings_file):
    """Searches for so long; returns what was counted, and what is said of it."""
    with ExitStack() as stack:
        inside, site = free_address(), "app.example"
        target = stack.enter_context(target_class.start(directory / "app", inside, "http://app.example"))
        fronts = {}
        for name, gate in target.gates(binary, directory, inside):
            fronts[name] = stack.enter_context(gate)
        search = Search(target, fronts, site, seed)
        control(search, replace(fronts["plain"], plain=inside))
        stack.enter_context(target.beside(search))
        search.began = time.monotonic()
        over = search.began + seconds
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client, search, over) for _ in range(CLIENTS)]
            try:
                judge_all(search, over, findings_file)
            finally:
                search.over = True
            for one in clients:
                one.result()
        search.seconds = time.monotonic() - search.began
        return search.counts, list(lines(search))


def control(search, nothing_between):
    """What is not seen cannot be found: each door's own sign-in has to be, and so does one that goes past the gate."""
    for door in search.target.doors:
        trial, _ = until(search, door, lambda trial, hole: len(trial.wrong) == 1 and not hole)
        if trial is None:
            raise Wrong(f"at {door.name} the application compared no password, or the gate took none")
    gate, search.fronts["plain"] = search.fronts["plain"], nothing_between
    _, hole = until(search, search.target.doors[0], lambda _, hole: hole and hole[0] == "uncounted")
    search.fronts["plain"] = gate
    if hole is None:
        raise Wrong("an attempt past the gate was not seen")
    search.counts.clear()


def until(search, door, is_seen):
    """Signs in at a door until the attempt is seen; one that has just begun may be late with its log, or with all."""
    over = time.monotonic() + BEGINS
    while time.monotonic() < over:
        with suppress(OSError):
            trial, hole = again(search, Case("plain", [[door.name, [], False]]))
            if is_seen(trial, hole):
                return trial, hole
    return None, None


def client(search, over):
    """Sends one case after the other."""
    while time.monotonic() < over and not search.over:
        case = search.make() if len(search.trials) < UNJUDGED else time.sleep(0.05)
        if case is not None:
            with suppress(OSError):  # the application was too busy to show its form
                search.waiting.append(search.run(case))


def judge_all(search, over, findings_file):
    """Judges what is due until everything is, and hands findings to a thread of its own."""
    late = []
    with ThreadPoolExecutor(3) as pool:
        while time.monotonic() < over or search.waiting or late:
            while search.waiting:
                late.append(search.waiting.popleft())
            now = time.monotonic()
            search.read_log()
            due = [trial for trial in late if trial.due <= now]
            late = [trial for trial in late if trial.due > now]
            for trial in due:
                if hole := search.judge(trial):
                    found(
                        search, trial, hole, lambda finding: pool.submit(settle, search, finding, findings_file, over)
                    )
            time.sleep(0.05)


def found(search, trial, hole, settle_it):
    """A hole that is known is counted; another one is made small and written down."""
    what, count = hole
    for finding in search.findings:
        if finding.what == what and known(finding, trial.case):
            finding.again += 1
            return
    if len(search.findings) < ENOUGH:
        seconds = time.monotonic() - search.began
        finding = Finding(trial.case, what, count, trial.raw, statuses(trial), search.counts["requests"], seconds)
        search.findings.append(finding)
        settle_it(finding)


def statuses(trial):
    """What was answered."""
    return [answer.status for answer in trial.answers]


def settle(search, finding, findings_file, over):
    """Makes a finding small, unless another one says the same by then, and writes it down."""
    with suppress(OSError):
        smaller(search, finding, over)
    others = [one for one in search.findings if one is not finding and one.what == finding.what]
    if same := next((one for one in others if known(one, finding.case)), None):
        same.again += finding.again
        search.findings.remove(finding)
        return
    with open(findings_file if finding.what in WRONG else told(findings_file), "a") as file:
        file.write(finding.text(search.target.name) + "\n")


def told(findings_file):
    """Where findings stand that are no holes."""
    return findings_file.with_name("told.txt")


def smaller(search, finding, over):
    """Leaves out requests, edits and the way, one after the other, while it still gives something for nothing."""
    spent, improved = 0, True
    while improved and spent < SMALLER and time.monotonic() < over + GRACE:
        improved = False
        for case in fewer(finding.case):
            spent += 1
            trial, hole = again(search, case)
            if hole and hole[0] == finding.what:
                finding.case, finding.raw, finding.count = case, trial.raw, hole[1]
                finding.statuses, improved = statuses(trial), True
                break


def fewer(case):
    """Every case with one thing less, and the same by the simplest way."""
    if case.way != "plain":
        yield Case("plain", case.requests, case.at_once)
    if case.at_once:
        yield Case(case.way, case.requests, False)
    for number in range(len(case.requests)):
        if len(case.requests) > 1:
            yield Case(case.way, case.requests[:number] + case.requests[number + 1 :], False)
    for number, (door, changes, right) in enumerate(case.requests):
        for place in range(len(changes)):
            one = [door, changes[:place] + changes[place + 1 :], right]
            yield Case(case.way, case.requests[:number] + [one] + case.requests[number + 1 :], case.at_once)


def again(search, case):
    """The same case by another client, judged as soon as that is possible, and what is wrong with it."""
    trial = search.run(case)
    whole = all(answer.complete for answer in trial.answers)
    time.sleep(QUICKLY if whole else LATE)
    search.read_log()
    return trial, search.judge(trial)


def lines(search):
    """What is said of an application in the end."""
    counts, seconds = search.counts, max(search.seconds, 0.001)
    names = (
        "attempts",
        "counted",
        "uncounted",
        "wrongly refunded",
        "not on the account",
        "right",
        "right, not given back",
        "stray",
        *search.target.figures,
    )
    said = ", ".join(f"{counts[name]} {name}" for name in names)
    yield f"{search.target.name}: {counts['requests']} requests ({counts['requests'] / seconds:.0f}/s), {said}"
    yield "  answers: " + ", ".join(f"{status} {count}" for status, count in sorted(search.statuses.items()))
    for line in search.strays[-3:]:
        yield f"  of no case: {line[:200]}"
    for what, count in search.honest.most_common(10):
        yield f"  an honest person pays: {what}, {count} times"


def hunt_in(directory, target, binary, *rest):
    """The same in a directory of its own."""
    place = Path(directory)
    (place / "app").mkdir(parents=True)
    search = getattr(target, "hunt", None)
    return search(binary, place / "app", *rest) if search else hunt(target, binary, place, *rest)
