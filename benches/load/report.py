"""The results as Markdown: what a terminal shows and what benches/RESULTS.md keeps.

A cell is "median (smallest-largest)" over the rounds. A ratio is taken within each round first, where both servers
met the same neighbours on the machine, and then summed up in the same way.
"""

import os
import platform
import re
import subprocess
from datetime import date
from pathlib import Path
from statistics import median

BEGIN, END = "<!-- scripts/bench writes from here -->", "<!-- to here -->"


def spread(values, digits):
    """Median, smallest, largest."""
    values = list(values)
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def table(head, rows):
    """A Markdown table, first column left, the others right."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def ratios(samples, pairs, value):
    """The first one's value to the other's, for each pair."""
    for ours, other in pairs:
        both = zip(samples[ours], samples[other], strict=True)
        yield f"{ours} / {other}", [value(a) / max(value(b), 1e-12) for a, b in both]


def run_row(name, samples):
    """One server under one generator."""
    micro = [
        [s.processor * 1e6 for s in samples],
        [s.user / max(1, s.requests) * 1e6 for s in samples],
        [s.system / max(1, s.requests) * 1e6 for s in samples],
    ]
    return [name, spread(micro[0], 2), *(f"{median(m):.2f}" for m in micro[1:]), spread((s.rate for s in samples), 0),
            *latency_cells(samples), sum(s.errors for s in samples), logged(samples)]


def logged(samples):
    """The share of the requests that the access log has; wrk's count misses those that it gave up at its end."""
    return f"{min(1, sum(s.logged for s in samples) / max(1, sum(s.requests for s in samples))):.1%}"


def latency_cells(samples):
    """p50, p99 and p99.9 in microseconds."""
    values = [[getattr(s, name) for s in samples] for name in ("p50", "p99", "p999")]
    return ["" if None in each else spread((v * 1e6 for v in each), 0) for each in values]


def runs(title, samples, pairs):
    """One generator on one path: the table and the ratios."""
    head = ["server", "processor µs/request", "user", "system", "requests/s", "p50 µs", "p99 µs", "p99.9 µs", "errors",
            "logged"]
    text = f"### {title}\n\n" + table(head, [run_row(name, of) for name, of in samples.items()])
    values = {"processor time": lambda s: s.processor, "requests/s": lambda s: s.rate}
    if all(s.p50 for of in samples.values() for s in of):
        values["p50"] = lambda s: s.p50
    rows = [[f"{what}, {pair}", spread(seen, 2)] for what, value in values.items()
            for pair, seen in ratios(samples, pairs, value)]
    return text + ("\n" + table(["ratio", "of the same round"], rows) if rows else "")


def fixed_rate(title, samples, pairs):
    """Latency at a rate that all of them can serve."""
    head = ["server", "requests/s", "p50 µs", "p99 µs", "p99.9 µs", "errors"]
    rows = [[name, spread((s.rate for s in of), 0), *latency_cells(of), sum(s.errors for s in of)]
            for name, of in samples.items()]
    extra = [[f"p50, {pair}", spread(seen, 2), "", "", "", ""] for pair, seen in ratios(samples, pairs, lambda s: s.p50)]
    return f"### {title}\n\n" + table(head, rows + extra)


def goal(path, tool, pair, most, seen):
    """A row of the table of goals: how far the median of the ratios is from the most that it may be."""
    over = median(seen) / most - 1
    return [path, tool, "p50" if tool == "fixed" else "processor time", pair, f"{most:.2f}", spread(seen, 2),
            "met" if over <= 0 else f"missed by {over:.0%}"]


def goals(rows):
    """What is wanted beside what was seen."""
    head = ["path", "tool", "figure", "ratio", "at most", "seen", "goal"]
    return "### Goals\n\n" + table(head, rows) if rows else ""


def instructions(text):
    """The lines of scripts/instructions."""
    return f"### Instructions of a request of tollgate in user space (callgrind)\n\n```text\n{text}```\n"


def memory(residents):
    """Resident memory after the runs of a path."""
    return table(["server", "resident MB"], [[name, f"{size / 1e6:.1f}"] for name, size in residents.items()])


def checks(rows):
    """Promises kept and broken."""
    head = ["server", "limit", "requests", "admitted", "reached the upstream", "promised at most", "refused", "errors",
            "logged", "verdict"]
    return "### Promises at saturation\n\n" + table(head, rows)


def setting(command, versions):
    """Where and how it was measured."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    system = re.search(r'PRETTY_NAME="?([^"\n]*)', Path("/etc/os-release").read_text())
    facts = [f"{date.today()}, commit {commit()}, {system[1]}, Linux {platform.release()}, {os.cpu_count()} x {cpu[1] if cpu else 'CPU'}",
             f"`{command}`", *versions]
    return "".join(f"- {fact}\n" for fact in facts)


def commit():
    """What is checked out; who measures another build has to say so."""
    done = subprocess.run(["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def update(file, text):
    """Replaces the part of a file between the marks, or appends it."""
    old = file.read_text() if file.exists() else f"# Results\n\n{BEGIN}\n{END}\n"
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    file.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after or chr(10)}")
