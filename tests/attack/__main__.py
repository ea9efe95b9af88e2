"""An attacker of our own: real applications behind a real gate, and a search for attempts that are not paid for.

Usage: python3 tests/attack [--seconds N] [--seed S] [--only APP,...] [--all] [TOLLGATE]

An attempt that the application's own log shows and the gate's buckets do not is a hole, and so is a wrong password
whose token was given back, a guess beyond the limit of its account, and an honest person who is refused; the exit code
is then 1. Each is made as small as it goes and written to target/attack/findings.txt. An attempt whose account did not
pay is no hole, because the gate cannot always know what an application takes for a name; it stands in told.txt beside.
"""

import argparse
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "apps")]

import hunt
import processes
from processes import stop_all, tail
from target import ROOT
from targets import QUICK, TARGETS

AT_ONCE = 14  # as many as a small machine starts in time


def main():
    """Many applications at once, each in a process of its own."""
    wanted = arguments()
    findings = ROOT / "target" / "attack" / "findings.txt"
    findings.parent.mkdir(parents=True, exist_ok=True)
    for file in (findings, hunt.told(findings)):
        file.write_text("")
    began = time.monotonic()
    with ProcessPoolExecutor(min(AT_ONCE, len(wanted.only))) as pool:
        tasks = [pool.submit(one, name, wanted, findings) for name in wanted.only]
        wrong = [task.result() for task in tasks]
    print(findings.read_text(), end="")
    seconds = time.monotonic() - began
    print(f"{wrong.count('')} of {len(wrong)} applications without a hole, {seconds:.0f} s, seed {wanted.seed}")
    for line in filter(None, wrong):
        print(line)
    sys.exit(1 if any(wrong) else 0)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/attack", description="Searches for attempts that are not paid for.")
    parser.add_argument("--seconds", type=int, default=60, help="how long each application is searched")
    parser.add_argument("--seed", default="1", help="of what is tried")
    parser.add_argument("--only", default="", help=f"of {', '.join(TARGETS)}, with commas between")
    parser.add_argument("--all", action="store_true", help="those too that take long to start")
    parser.add_argument("tollgate", nargs="?", default=str(ROOT / "target" / "release" / "tollgate"))
    wanted = parser.parse_args()
    wanted.only = wanted.only.split(",") if wanted.only else list(TARGETS) if wanted.all else QUICK
    for name in wanted.only:
        if name not in TARGETS:
            parser.error(f"{name} is none of {', '.join(TARGETS)}")
    if not Path(wanted.tollgate).is_file():
        parser.error(f"{wanted.tollgate} is missing, build it with `cargo build --release`")
    wanted.tollgate = str(Path(wanted.tollgate).absolute())
    return wanted


def one(name, wanted, findings):
    """One application; what is wrong with it, in a line. One that could not be searched gets a second try."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop_all())
    what = (wanted.tollgate, wanted.seconds, wanted.seed, findings)
    for last in (False, True):
        with tempfile.TemporaryDirectory(prefix="tollgate-attack-", ignore_cleanup_errors=True) as directory:
            try:
                counts, said = hunt.hunt_in(directory, TARGETS[name], *what)
                break
            except Exception as failure:  # the others go on, and this one says where it stood
                broken = f"{name}: {type(failure).__name__}: {failure}"
                print(broken, flush=True)
                for log in sorted(Path(directory).rglob("*.log")):
                    print(f"  {log.name}\n{tail(log, 5)}", flush=True)
                if last or processes.ending:
                    return broken
    print("\n".join(said), flush=True)
    wrong = [f"{counts[what]} {what}" for what in hunt.WRONG if counts[what]]
    return f"{name}: {', '.join(wrong)}" if wrong else ""


if __name__ == "__main__":
    main()
