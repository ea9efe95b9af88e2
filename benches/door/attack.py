"""Attacks a gate with the usual tools while a probe of another address measures. See scripts/attack-tools."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from probe import Probe
from setting import Setting, make_certificates

ROOT = Path(__file__).resolve().parent.parent.parent
MODES = {
    "slow headers (`-H`)": ["-H", "-i", "5"],
    "slow body (`-B`)": ["-B", "-i", "5", "-s", "8192", "-x", "10"],
    "slow read (`-X`)": ["-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32"],
    "ranges (`-R`)": ["-R", "-t", "HEAD", "-a", "10", "-b", "3000"],
}
CONNECTIONS = 4000
SECONDS = 40
MOST_P99 = 50
ROUNDS = 3

# Attackers have machines of their own: on this one they leave the processor to the gate and to who measures.
ELSEWHERE = ["nice", "-n", "10"]

# What testssl.sh holds against a chain of a test, or against the application.
NOT_THE_GATES = {
    "cert_chain_of_trust": "the authority is the test's own",
    "cert_revocation": "a test authority has no list and no responder",
    "cert_ocspURL": "the same", "cert_crlDistributionPoints": "the same",
    "OCSP_stapling": "nothing to staple: no responder",
    "DNS_CAArecord": "app.test is in no DNS",
    "HSTS": "the application's to say", "HPKP": "the same", "security_headers": "the same",
    "banner_server": "the same", "banner_application": "the same", "cookie_count": "the same",
    "engine_problem": "the scanner's own: what its OpenSSL lacks", "scanTime": "the scanner's own",
    "BREACH": "the application's: the gate compresses nothing",
}
FINE = {"OK", "INFO", "DEBUG"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/tollgate"))
    parser.add_argument("--results", type=Path, help="a Markdown file to update, such as benches/DOOR.md")
    parser.add_argument("--only", default="slow,h2load,tls", help="some of them")
    return parser.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def processor():
    """Ticks in all, and those that the host kept for others: while it does, nobody here gets an answer."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(ticks), ticks[7]


class Watch(threading.Thread):
    """The most that the gate had of memory and connections, and the part of the processor that the host kept."""

    def __init__(self, setting):
        super().__init__(daemon=True)
        self.setting, self.over, self.resident, self.connections = setting, False, 0, 0
        self.since, self.kept = processor(), 0.0

    def run(self):
        while not self.over:
            self.resident = max(self.resident, self.setting.resident())
            self.connections = max(self.connections, self.setting.metrics()["tollgate_connections"])
            time.sleep(0.5)

    def stop(self):
        self.over = True
        total, kept = (now - before for now, before in zip(processor(), self.since))
        self.kept = 100 * kept / max(total, 1)
        self.join(10)


def observed(setting, attack):
    """Runs this beside a probe; what both saw."""
    time.sleep(1)
    probe, watch = Probe(setting.plain), Watch(setting)
    watch.start(), probe.start()
    said = attack()
    probe.stop()
    watch.stop()
    return probe, watch, said


def row(name, probe, watch, note):
    cells = [name, f"{len(probe.times):,}", len(probe.errors), f"{probe.quantile(0.5):.1f}",
             f"{probe.quantile(0.99):.1f}", f"{probe.quantile(1):.1f}", f"{watch.kept:.0f} %",
             f"{watch.connections:.0f}", f"{watch.resident:.0f} MiB", note]
    line = "| " + " | ".join(map(str, cells)) + " |"
    say(line)
    for error in sorted(set(probe.errors))[:5]:
        say(f"   {error}")
    return line


def is_felt(probe):
    """Whether others wait too long, or for nothing."""
    return probe.quantile(0.99) >= MOST_P99 or probe.errors


def refused(setting):
    """Connections that were turned away, by reason."""
    counts = {re.search('"(.*)"', name)[1]: int(value) for name, value in setting.metrics().items()
              if name.startswith("tollgate_connections_refused_total") and value}
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items()) or "none turned away"


def slow_attacks(chosen, directory, faults):
    """slowhttptest in its modes, with the default bound on one client and with one that lets all of them in."""
    rows = ["| attack | answers | errors | p50 ms | p99 ms | max ms | host | connections | resident "
            "| what became of it |", "|---|---|---|---|---|---|---|---|---|---|"]
    with Setting(chosen.binary, directory) as setting:
        probe, watch, _ = observed(setting, lambda: time.sleep(10))
        rows.append(row("none", probe, watch, ""))
    for bound in ["", f"client_max = {CONNECTIONS + 1000}\n"]:
        for name, flags in MODES.items():
            with Setting(chosen.binary, directory, bound) as setting:
                probe, watch, said = observed(setting, lambda: slowhttptest(setting, flags))
                title = f"{name}, `client_max` {bound.split()[-1] if bound else 'as it is'}"
                rows.append(row(title, probe, watch, f"{refused(setting)}; {said}"))
                if is_felt(probe) or not setting.runs():
                    faults.append(f"{title}: p99 {probe.quantile(0.99):.1f} ms, {len(probe.errors)} errors")
    return rows


def slowhttptest(setting, flags):
    path = "/large" if "-X" in flags else "/"
    command = [*ELSEWHERE, "slowhttptest", "-c", str(CONNECTIONS), "-r", "1000", "-l", str(SECONDS), "-p", "3", *flags,
               "-u", f"http://127.0.0.1:{setting.plain}{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * SECONDS)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    last = {key: re.findall(rf"{key}:\s+(\w+)", text)[-1:] for key in ["closed", "connected", "service available"]}
    return ", ".join(f"{key} {''.join(value)}" for key, value in last.items() if value)


def h2load(chosen, directory, faults):
    """As much HTTP/2 as a hundred connections with a hundred streams each can ask for."""
    rows = ["| h2load -c 100 -m 100 over TLS | requests/s | failed | other statuses "
            "| answers | errors | p50 ms | p99 ms | max ms | host |",
            "|---|---|---|---|---|---|---|---|---|---|"]
    body = Path(directory) / "form"
    body.write_text("name=a&password=b")
    for name, path, flags in ROUNDS * [("forwarded", "/", []), ("refused", "/login", ["-d", str(body)])]:
        with Setting(chosen.binary, directory) as setting:
            command = [*ELSEWHERE, "h2load", "-c", "100", "-m", "100", "-n", "200000", *flags,
                       f"https://127.0.0.1:{setting.tls}{path}"]
            probe, watch, done = observed(setting, lambda: subprocess.run(
                command, capture_output=True, text=True, timeout=300))
        rate = re.search(r", ([\d.]+) req/s", done.stdout)
        counts = re.search(r"requests: .*", done.stdout)
        statuses = re.search(r"status codes: .*", done.stdout)
        if not (rate and counts and statuses):
            faults.append(f"h2load {name}: {done.stdout[-500:]} {done.stderr[-500:]}")
            continue
        failed = sum(map(int, re.findall(r"(\d+) (?:failed|errored|timeout)", counts[0].split("done")[1])))
        # A refusal is what is wanted of /login, but for the one attempt that there is.
        failed = int(re.search(r"(\d+) errored", counts[0])[1]) if name == "refused" else failed
        rows.append(f"| {name} | {float(rate[1]):,.0f} | {failed} | {statuses[0][14:]} | {len(probe.times):,} | "
                    f"{len(probe.errors)} | {probe.quantile(0.5):.1f} | {probe.quantile(0.99):.1f} | "
                    f"{probe.quantile(1):.1f} | {watch.kept:.0f} % |")
        say(rows[-1])
        if failed or is_felt(probe):
            faults.append(f"h2load {name}: {counts[0]}; p99 {probe.quantile(0.99):.1f} ms, {len(probe.errors)} errors")
    return rows


def scan(chosen, directory, faults):
    """testssl.sh against both kinds of certificate."""
    rows = ["| testssl.sh | checks | fine | not the gate's | findings |", "|---|---|---|---|---|"]
    with Setting(chosen.binary, directory) as setting:
        for kind in ["ecdsa", "rsa"]:
            found = Path(directory) / f"{kind}.json"
            command = ["testssl", "--add-ca", str(Path(directory) / "ca.pem"), "--jsonfile", str(found), "--quiet",
                       "--warnings", "batch", "--color", "0", "--nodns", "none", "--openssl-timeout", "5",
                       "--ip", "127.0.0.1", f"{kind}.test:{setting.tls}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL)
            if not found.exists():
                faults.append(f"testssl {kind}: {done.stdout[-500:]}{done.stderr[-500:]}")
                continue
            checks = json.loads(found.read_text())
            odd = [check for check in checks if check["severity"] not in FINE]
            is_ours = lambda check: check["id"].split()[0] not in NOT_THE_GATES
            ours = [f"{check['id']}: {check['finding']} ({check['severity']})" for check in odd if is_ours(check)]
            others = sorted({f"{check['id'].split()[0]} ({check['severity']})" for check in odd if not is_ours(check)})
            rows.append(f"| {kind.upper()} | {len(checks)} | {len(checks) - len(odd)} | {', '.join(others)} | "
                        f"{'; '.join(ours) or 'none'} |")
            say(rows[-1])
            faults += [f"testssl {kind}: {finding}" for finding in ours]
    return rows


def update(path, text):
    """Replaces what an earlier run wrote."""
    begin, end = "<!-- scripts/attack-tools -->", "<!-- end -->"
    old = path.read_text() if path.exists() else f"# The front door\n\n{begin}\n{end}\n"
    before, rest = old.split(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}")


def main():
    chosen = arguments()
    faults, parts = [], []
    with tempfile.TemporaryDirectory(prefix="attack-tools-") as directory:
        os.chmod(directory, 0o755)   # nginx's worker gives up root
        make_certificates(Path(directory))
        steps = {"slow": slow_attacks, "h2load": h2load, "tls": scan}
        for name in chosen.only.split(","):
            parts.append("\n".join(steps[name](chosen, directory, faults)))
    text = "\n\n".join(parts)
    print(text)
    if chosen.results:
        update(chosen.results, text)
    for fault in faults:
        say(f"FAULT {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
