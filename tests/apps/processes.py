"""Starts programs in process groups of their own, waits for them, and ends exactly those.

A group, because `php -S` and hydra fork workers that outlive their parent when only the parent is told to stop.
"""

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

from report import Wrong

started = set()
ending = False


@contextmanager
def running(name, command, log, env=None, cwd=None):
    """Runs `command` for the length of the block; its output goes to the file `log`."""
    if ending:
        raise Wrong(f"told to stop before {name} was started")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process.name, process.log = name, log
    started.add(process)
    try:
        yield process
    finally:
        stop(process)


def call(command, log, env=None, cwd=None, seconds=75):
    """Runs a command to its end and returns what it said; one that fails is shown with its last words."""
    with running(command[0], command, log, env, cwd) as process:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = f"no end after {seconds} s"
    if code != 0:
        raise Wrong(f"{command[0]} failed ({code}):\n{tail(log)}")
    return log.read_text(errors="replace")


def stop(process, patience=30):
    """Asks the group to end, insists after `patience` seconds, and returns the exit code; does so only once."""
    if process not in started:
        return process.returncode
    signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    signal_group(process, signal.SIGKILL)
    started.discard(process)
    return process.wait()


def stop_all():
    """Ends everything under way, so that its caller goes on and cleans up."""
    global ending
    ending = True
    for process in tuple(started):
        signal_group(process, signal.SIGTERM)


def signal_group(process, number):
    """The group outlives its leader for as long as one worker runs."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def wait_until(ready, process, seconds=120):
    """Polls `ready` until it is true; a server that ends or stays silent is shown with its last words."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise Wrong(f"{process.name} ended with {process.returncode} before it answered:\n{tail(process.log)}")
        if time.monotonic() > deadline:
            raise Wrong(f"{process.name} did not answer within {seconds} s:\n{tail(process.log)}")
        time.sleep(0.05)


def tail(log, lines=30):
    """The last lines of a log that say anything, indented."""
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join("    " + line for line in said[-lines:])


def accepts(address):
    """Whether a server listens there."""
    with suppress(OSError), socket.create_connection(address, timeout=1):
        return True
    return False


def free_address():
    """A loopback address and port that are free.

    The host is random as well: outgoing connections all start on 127.0.0.1, so none can take the port before we do.
    """
    host = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()


def url(address):
    """http://HOST:PORT."""
    return "http://%s:%d" % address
