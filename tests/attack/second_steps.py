"""Second steps under siege: small limits, attackers who guess codes in every way, and people who sign in beside them.

The attackers know the passwords of accounts of their own, and each account is attacked for a while in several sessions.
More codes than the account's limit may be compared only as far as the bucket of strangers goes, which all attackers
share; each one more is a hole. Nobody who signs in honestly may be refused.
"""

import itertools
import random
import threading
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from steps import EVERYTHING, FlaskSteps, StepTarget, account

LIMIT = 10
STRANGERS = 4 * LIMIT  # docs/signin.md: as much as four clients have
LONG = 40  # cases at one account
SESSIONS = 4  # of one account at a time
PEOPLE = 2  # at a time
BALANCER = "route=balancer-0123456789"  # which all browsers have
LIMITS = f"""
[limit.account]
key = "user"
rate = "{LIMIT} per 365d"
count = "failures"
"""


@dataclass
class Siege(StepTarget):
    """The accounts that are attacked, and what came of it."""

    limit: str = LIMITS
    figures: tuple = ("more than an account has", "beyond the limit", "honest people", "honest refused")
    sessions: dict = field(default_factory=lambda: defaultdict(list))
    compared: Counter = field(default_factory=Counter)
    more: int = 0

    def session_for(self, trial):
        """One of the sessions of the account whose turn it is; a new one now and then."""
        user, sessions = account(trial.number // LONG), self.sessions[trial.number // LONG]
        if not self.others or trial.number % LONG == 0:
            self.others = self.others or self.sign_in(trial.front, "other", trial.number)
        if trial.number % LONG < SESSIONS:
            sessions.append(self.sign_in(trial.front, user, trial.number))
        if trial.session is None:
            trial.session = random.choice(sessions or [[]])
        return trial.session, ()

    @staticmethod
    def compares(line):
        """Not what honest people are asked."""
        return StepTarget.compares(line) and '"honest' not in line

    @staticmethod
    def owed(_trial):
        """The accounts' buckets are empty soon, so they say nothing of one case."""
        return {}

    def beyond(self, trial):
        """Wrong codes that nothing paid for: neither their account's bucket nor that of strangers."""
        before = self.more
        for user in trial.users.values():
            self.compared[user] += 1
            self.more += self.compared[user] > LIMIT
        return max(0, self.more - max(before, STRANGERS))

    @contextmanager
    def beside(self, search):
        """People who sign in while it is attacked."""
        over = threading.Event()
        people = [threading.Thread(target=self.live, args=(search, number, over)) for number in range(PEOPLE)]
        for one in people:
            one.start()
        try:
            yield
        finally:
            over.set()
            for one in people:
                one.join()
            search.counts["more than an account has"] = self.more

    def live(self, search, number, over):
        """One after the other, until it is over."""
        for count in itertools.count():
            if over.wait(0.05):
                return
            with suppress(OSError):
                self.person(search, f"honest{number}-{count}", f"127.{8 + number}.{count >> 8 & 255}.{count & 255}")

    def person(self, search, user, address):
        """Both steps, with a mistake or two at each."""
        gate, cookies = search.fronts["plain"], [BALANCER]
        tries = [("/login", {"login": user, "pw": "wrong"})] * random.choice([0, 0, 1])
        tries += [("/login", {"login": user, "pw": "right-one"})]
        tries += [("/code", {"code": "mistaken"})] * random.choice([0, 1, 2]) + [("/code", {"code": "right-code"})]
        search.counts["honest people"] += 1
        for path, form in tries:
            answer = self.ask(gate, path, form, address, cookies)
            if not 200 <= answer.status < 500:
                return  # the application was too busy; without its cookie the next step would be a stranger's
            if cookie := answer.header("set-cookie"):
                cookies = [BALANCER, cookie.partition(";")[0]]
            if answer.status >= 400:
                search.counts["honest refused"] += 1
                search.honest[f"{path} with {form} is answered {answer.status}"] += 1
                return


class SecondSteps(FlaskSteps):
    """On gunicorn."""

    name = "second-steps"
    grammar = EVERYTHING
    target = Siege
