"""What a token bucket promises, worked out from outside: from times that a tap took, in seconds.

A tap does not see the moment of a decision, only that it lies between two others. Every figure is therefore worked
out for both ends. Where they agree, and with tokens seconds apart they nearly always do, the check is exact.
"""

from dataclasses import dataclass
from math import ceil, floor


@dataclass
class Bucket:
    """`count` tokens a minute, at most `burst` at once."""

    count: int
    burst: int

    @property
    def rate(self):
        """As the gate's file writes it."""
        return f"{self.count} per 1m burst {self.burst}"

    @property
    def period(self):
        """Seconds for a token."""
        return 60 / self.count

    def admits(self, seconds):
        """How many attempts get through in that time if there is always one more waiting."""
        return floor(self.burst + seconds / self.period)

    def wait(self, seconds):
        """The Retry-After of a refusal that long after the first attempt.

        An attacker who never rests takes each token as it falls due, so tokens fall due a whole number of periods
        after the first attempt.
        """
        return max(1, ceil(self.period - seconds % self.period))


@dataclass
class Moment:
    """A decision of the gate: not before `earliest`, not after `latest`."""

    earliest: float
    latest: float

    def since(self, first):
        """The least and the most that can lie between two moments."""
        return self.earliest - first.latest, self.latest - first.earliest


def moments(attempts, arrivals):
    """The first and the last decision of an attack.

    The gate decided after an attempt was sent, and before its refusal came back or it arrived at the application.
    """
    ends = [a.answered for a in attempts if a.status == 429] + [a.sent for a in arrivals]
    sent = [a.sent for a in attempts]
    return Moment(min(sent), min(ends)), Moment(max(sent), max(ends))


def false_waits(bucket, refusals, first):
    """Refusals whose Retry-After is not the time to the next token, with what it should have been."""
    for refusal in refusals:
        true = {bucket.wait(span) for span in Moment(refusal.sent, refusal.answered).since(first)}
        if refusal.retry_after not in map(str, true):
            yield refusal, true
