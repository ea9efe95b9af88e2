"""The programs that a measurement needs: found, installed where that is allowed, and named with their versions."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from servers import SERVERS

# By tool of generators.py.
GENERATORS = {"oha": "oha", "fixed": "oha", "wrk": "wrk", "h2load": "h2load", "handshakes": "h2load", "flood": "wrk"}
VERSIONS = {"oha": "--version", "wrk": "-v", "h2load": "--version"}
DEBIAN = {"nginx": "nginx", "haproxy": "haproxy", "wrk": "wrk", "h2load": "nghttp2-client", "openssl": "openssl", "taskset": "util-linux",
          "valgrind": "valgrind python3-h2"}
# Debian keeps servers out of the path of ordinary users, and cargo installs where no profile may have looked yet.
PLACES = ["/usr/sbin", "/sbin", str(Path.home() / ".cargo/bin")]


def require(servers, generators):
    """Installs what is missing where it may, otherwise says what is missing. nginx is the application, too."""
    os.environ["PATH"] += os.pathsep + os.pathsep.join(PLACES)
    wanted = {"nginx", "openssl", "taskset", *(SERVERS[name].program for name in servers), *generators}
    debian = [DEBIAN[name] for name in sorted(wanted & DEBIAN.keys()) if not shutil.which(name)]
    if debian and os.geteuid() == 0 and shutil.which("apt-get"):
        install_from_debian(" ".join(debian).split())
    if "oha" in wanted and not shutil.which("oha") and shutil.which("cargo"):
        subprocess.run(["cargo", "install", "oha", "--locked"], stdout=sys.stderr, check=True)
    missing = sorted(name for name in wanted if not shutil.which(name))
    if missing:
        raise SystemExit(f"missing: {', '.join(missing)}\n  Debian: apt-get install {' '.join(DEBIAN.values())}\n"
                         "  oha: cargo install oha --locked\n  tollgate: scripts/dist")


def install_from_debian(packages):
    """Without starting them as services: Debian's packages would listen on port 80 of every address."""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        subprocess.run(["apt-get", "update", "-qq"], stdout=sys.stderr, check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], stdout=sys.stderr,
                       check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    finally:
        if ours:
            policy.unlink()


def versions(servers, generators):
    """Of everything that took part."""
    found = [version(SERVERS[name].program, SERVERS[name].version) for name in servers]
    return ", ".join(found + [version(name, VERSIONS[name]).partition(" [")[0] for name in sorted(generators)])


def version(program, option):
    """The line in which a program names its version."""
    done = subprocess.run([program, option], capture_output=True, text=True, timeout=10)
    text = done.stdout + done.stderr
    return next((line for line in text.splitlines() if re.search(r"\d\.\d", line)), "unknown version").strip()
