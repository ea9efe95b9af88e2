#!/usr/bin/env python3
"""Prints the access log of a day that was made up: 600 people, an office, a phone with an old password, two attackers.

Each run prints the same lines. docs/tuning.md shows what `tollgate replay` says of them."""

import datetime
import random

DAY = datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc)
HOUR = 3600


def main():
    chance = random.Random(1).random
    lines = [*people(chance), *office(chance), *phone(), *one_attacker(), *neighbours(chance)]
    for second, client, status in sorted(lines):
        time = (DAY + datetime.timedelta(seconds=int(second))).strftime("%d/%b/%Y:%H:%M:%S +0000")
        print(f'{client} - - [{time}] "POST /login HTTP/1.1" {status} 0 "-" "-"')


def sign_in(chance, begin, client):
    """One attempt in six is a typing error, and the next one follows within 4 to 20 seconds."""
    second = begin
    while chance() < 1 / 6:
        yield second, client, 401
        second += 4 + 16 * chance()
    yield second, client, 302


def people(chance):
    """Each at an address of their own, once to three times between 6:00 and 23:00. One in fifty has forgotten the password."""
    for number in range(600):
        client = f"198.18.{number // 250}.{number % 250 + 1}"
        for _ in range(1 + int(3 * chance())):
            begin = (6 + 17 * chance()) * HOUR
            yield from sign_in(chance, begin, client)
        if number % 50 == 0:
            begin = (6 + 16 * chance()) * HOUR
            tries = 4 + int(6 * chance())
            yield from ((begin + 12 * at, client, 401) for at in range(tries))
            # It comes by mail.
            yield begin + 12 * tries + 300, client, 302


def office(chance):
    """80 people behind one address, at nine o'clock."""
    for _ in range(80):
        yield from sign_in(chance, 9 * HOUR + 900 * chance(), "203.0.113.7")


def phone():
    """Tries an old password every ten minutes, all day."""
    return ((at * 600, "192.0.2.20", 401) for at in range(144))


def one_attacker():
    """2,000 guesses from one address, one a second."""
    return ((14 * HOUR + at, "192.0.2.66", 401) for at in range(2000))


def neighbours(chance):
    """2,000 guesses within an hour from 200 addresses of one network."""
    return ((20 * HOUR + HOUR * chance(), f"100.64.7.{at % 200 + 1}", 401) for at in range(2000))


main()
