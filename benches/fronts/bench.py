"""Measures what a gate adds to the proxies that ask it. See scripts/bench-fronts."""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "benches/load"))

import report
from proxies import ALONE, ASKING, PROXIES, REPORTING, missing
from setting import BUCKET, Front, Load, application

FORM, LONG = "form", "64 KiB"
BODIES = {FORM: None, LONG: 64 * 1024}
VERSIONS = (1, 2)
PASSWORDS = 500
BEGIN, END = "<!-- scripts/bench-fronts -->", "<!-- end -->"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tollgate", nargs="?", default=str(ROOT / "target/dist/tollgate"), help="the program to measure")
    parser.add_argument("--fronts", default=";".join(PROXIES), help="of these, with semicolons: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each run")
    parser.add_argument("--rate", type=int, default=200, help="requests a second, which every proxy can serve")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--passwords", type=int, default=PASSWORDS, help="right ones, and wrong ones, of the count")
    parser.add_argument("--cores", default="0,1", help="of proxies and gates, and of the load and the application")
    parser.add_argument("--results", type=Path, help="a Markdown file to update, such as benches/RESULTS.md")
    chosen = parser.parse_args()
    chosen.fronts = chosen.fronts.split(";")
    if unknown := set(chosen.fronts) - set(PROXIES):
        parser.error(f"unknown: {'; '.join(sorted(unknown))}")
    chosen.server_core, chosen.load_core = map(int, chosen.cores.split(","))
    if not {chosen.server_core, chosen.load_core} <= os.sched_getaffinity(0):
        parser.error(f"needs the processor cores {chosen.cores}")
    if not Path(chosen.tollgate).is_file():
        parser.error(f"{chosen.tollgate} is missing: scripts/dist makes target/dist/tollgate")
    if lacks := missing(chosen.fronts):
        parser.error(f"missing: {', '.join(lacks)}")
    if chosen.results and not all(chosen.results.is_file() and mark in chosen.results.read_text() for mark in (BEGIN, END)):
        parser.error(f"{chosen.results} has no lines `{BEGIN}` and `{END}` to write between")
    chosen.tollgate = str(Path(chosen.tollgate).resolve())
    return chosen


def spread(values):
    """The median, and how far the furthest round is from it."""
    values = list(values)
    middle = median(values)
    return f"{middle:,.0f}±{max(abs(value - middle) for value in values):,.0f}"


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """All fronts of one run, and what was seen of them."""

    def __init__(self, chosen, load, fronts):
        self.chosen, self.load, self.fronts = chosen, load, fronts
        self.samples = {(*front, version, body): [] for version in VERSIONS for body in BODIES for front in fronts}
        self.faults, self.counts = [], {}

    def rounds(self):
        """Every round goes through all: a proxy's modes follow each other, so that they meet the same neighbours."""
        c = self.chosen
        for cell in self.samples:
            self.measure(cell, max(c.connections, c.rate // 10))   # once to warm up
        for number in range(1, c.rounds + 1):
            for cell in self.samples:
                sample = self.measure(cell, int(c.rate * c.seconds))
                self.samples[cell].append(sample)
                if sample.others:
                    self.faults.append(f"{cell}: {sample.others}")
                say(f"{number}/{c.rounds} {cell[0]:17} {cell[1]:10} HTTP/{cell[2]} {cell[3]:7} p50 {sample.p50:6,} µs  "
                    f"p99 {sample.p99:7,} µs  processor {sample.proxy:5,.0f} + {sample.gate:4,.0f} µs {sample.others or ''}")

    def measure(self, cell, count):
        *front, version, body = cell
        return self.load.measure(self.fronts[*front], version, body, count, self.chosen.connections, self.chosen.rate)

    def count(self):
        """Right passwords, then wrong ones, by each version of HTTP."""
        for name in self.chosen.fronts:
            mode = PROXIES[name].modes()[-1]
            for version in VERSIONS:
                front = self.fronts[name, mode]
                refused = self.load.right_passwords(front, version, self.chosen.passwords)
                admitted = self.load.wrong_passwords(front, version, self.chosen.passwords, 25)
                self.counts[name, version] = (refused, admitted)
                say(f"{name}, HTTP/{version}: {refused} right refused, {admitted} wrong admitted")
                if refused or admitted != BUCKET:
                    self.faults.append(f"{name}, HTTP/{version}: {refused} right refused, {admitted} wrong admitted")

    def row(self, name):
        """What a reader needs of one proxy."""
        modes = PROXIES[name].modes()
        last = modes[-1]
        cells = [name, self.waits(name, ALONE, 1, FORM), self.waits(name, ASKING, 1, FORM)]
        cells += [self.waits(name, REPORTING, 1, FORM) if last == REPORTING else "–"]
        cells += [self.waits(name, last, version, body) for version, body in [(2, FORM), (1, LONG), (2, LONG)]]
        proxy = [spread(s.proxy for s in self.samples[name, mode, 1, FORM]) for mode in modes]
        gate = [spread(s.gate for s in self.samples[name, mode, 1, FORM]) for mode in modes[1:]]
        counts = [self.counts[name, version] for version in VERSIONS]
        counted = [f"{'–' if right is None else right}, {wrong}" for right, wrong in counts]
        return [*cells, "/".join(proxy), "/".join(gate), "; ".join(counted)]

    def waits(self, name, mode, version, body):
        """p50 and p99, or what is added to those of the proxy alone in the same round."""
        alone, seen = self.samples[name, ALONE, version, body], self.samples[name, mode, version, body]
        both = list(zip(alone, seen, strict=True))
        differences = [[getattr(s, of) - (mode != ALONE) * getattr(a, of) for a, s in both] for of in ("p50", "p99")]
        return "/".join(map(spread, differences))

    def table(self):
        """A row for each proxy."""
        head = ["proxy", "alone", "asked", "outcomes", "HTTP/2", "64 KiB", "both", "proxy", "gate", "right refused, wrong admitted"]
        return report.table(head, [self.row(name) for name in self.chosen.fronts])

    def all_cells(self):
        """Every cell, for those who want more than the table."""
        head = ["proxy", "mode", "HTTP", "body", "p50 µs", "p99 µs", "proxy µs", "gate µs"]
        figures = lambda samples: [report.spread((getattr(s, of) for s in samples), 0) for of in ("p50", "p99", "proxy", "gate")]
        return report.table(head, [[*cell, *figures(samples)] for cell, samples in self.samples.items()])


def versions(chosen):
    """Of everything that took part."""
    asked = {chosen.tollgate: ["--version"], "h2load": ["--version"]}
    asked |= {PROXIES[name].program: PROXIES[name].version for name in chosen.fronts}
    found = []
    for program, option in asked.items():
        done = subprocess.run([program, *option], capture_output=True, text=True, timeout=10)
        number = re.search(r"\d+\.\d+[\w.+-]*", done.stdout + done.stderr)
        found.append(f"{Path(program).name} {number[0] if number else 'of an unknown version'}")
    return ", ".join(found)


def update(path, text):
    """Replaces what an earlier run wrote."""
    before, rest = path.read_text().split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}")


def stop(*_):
    raise SystemExit("stopped")   # through the context managers, so that no process stays behind


def main():
    signal.signal(signal.SIGTERM, stop)
    chosen = arguments()
    os.sched_setaffinity(0, {chosen.load_core})   # the other core is that of proxies and gates
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-fronts-")))
        directory.chmod(0o755)   # nginx's worker gives up root
        behind = stack.enter_context(application(directory / "application", chosen.load_core))
        fronts = {}
        for name in chosen.fronts:
            for mode in PROXIES[name].modes():
                place = directory / re.sub(r"\W+", "-", f"{name}-{mode}")
                front = Front(name, mode, place, chosen.server_core, behind.address, chosen.tollgate)
                fronts[name, mode] = stack.enter_context(front)
                say(f"{name}, {mode}: runs")
        bench = Bench(chosen, Load(directory, chosen.load_core, BODIES), fronts)
        bench.count()
        bench.rounds()
    command = shlex.join(["scripts/bench-fronts", *sys.argv[1:]])
    print(bench.all_cells())
    text = report.setting(command, [versions(chosen)]) + "\n" + bench.table()
    print(text)
    if chosen.results:
        update(chosen.results, text)
    for fault in bench.faults:
        say(f"FAULT {fault}")
    return 1 if bench.faults else 0


if __name__ == "__main__":
    sys.exit(main())
