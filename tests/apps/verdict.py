"""Judges an attack: exactly what the bucket promises got through, and all who count agree on it."""

import attacker
import person
from promise import false_waits, moments
from report import Wrong


def judge(report, bucket, gate, tried, arrived, logged):
    """`tried` went in at the gate, `arrived` came out at the application, `logged` is the application's own count."""
    names = {attempt.forwarded_for for attempt in arrived}
    report.equal("X-Forwarded-For names", sorted(map(str, names)), [attacker.ADDRESS, person.ADDRESS])
    admitted = [attempt for attempt in arrived if attempt.forwarded_for == attacker.ADDRESS]
    refused = [attempt for attempt in tried if attempt.status == 429]
    first, last = moments(tried, admitted)
    judge_count(report, bucket, len(tried), len(admitted), last.since(first))
    report.equal("429 answers to the rest", len(refused), len(tried) - len(admitted))
    report.equal("answers of 200 to those that arrived", statuses(tried).count(200), len(admitted))
    judge_waits(report, bucket, refused, first)
    report.equal("attempts of the person at the application", len(arrived) - len(admitted), person.ATTEMPTS)
    report.equal("attempts in the application's own log", logged, len(arrived))
    judge_metrics(report, gate, len(arrived), len(refused))


def judge_count(report, bucket, tried, admitted, span):
    """floor(burst + rate x time), for the least and the most that the time can have been."""
    least, most = span
    allowed = sorted({bucket.admits(least), bucket.admits(most)})
    report.note(f"hydra tried {tried} times in {least:.3f} to {most:.3f} s, first decision to last")
    report.check(
        admitted in allowed,
        f"{admitted} attempts arrived at the application, "
        f"floor({bucket.burst} + {most:.3f} s / {bucket.period:g} s) is {' or '.join(map(str, allowed))}",
    )


def judge_waits(report, bucket, refused, first):
    """Retry-After is true on every refusal."""
    for refusal, true in false_waits(bucket, refused, first):
        after = f"{refusal.sent - first.latest:.3f} s after the first attempt"
        raise Wrong(f"Retry-After was {refusal.retry_after!r} {after}, true is {' or '.join(map(str, true))}")
    report.note(f"ok: Retry-After is the time to the next token on all {len(refused)} refusals")


def judge_metrics(report, gate, admitted, refused):
    """The gate counts as we do."""
    for decision, expected in (("admit", admitted), ("refuse", refused)):
        found = gate.count("tollgate_decisions_total", route="login", limit="address", decision=decision)
        report.equal(f"the gate's own count of `{decision}`", found, expected)
    report.equal("the gate's own count of 429 answers", gate.count("tollgate_requests_total", code="429"), refused)


def statuses(exchanges):
    """What was answered."""
    return [exchange.status for exchange in exchanges]
