"""Processes of a measurement: started on cores of their own, their processor time and memory read, ended by their ids.

Does not know what the processes are. Linux only: everything is read from /proc.
"""

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")


class Process:
    """A program with its children, pinned to cores ("0" or "0,1"), that listens on `address` and writes to `output`."""

    def __init__(self, command, cores, address, output):
        self.address, self.output = address, Path(output)
        # Appending, so that an output file that is also a log can be cut short while it is written.
        with open(output, "ab") as out:
            self.child = subprocess.Popen(["taskset", "-c", str(cores), *command],
                                          stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def __enter__(self):
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._runs():
            self.child.terminate()
            wait_for(lambda: not self._runs(), 5)
        # A worker whose master died in a hurry would go on listening. The group id is ours until the wait.
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(5)

    def pids(self):
        """The process and all its descendants, itself first."""
        found = [self.child.pid]
        for pid in found:
            found += children(pid)
        return found

    def processor_time(self):
        """Seconds of (user, system) time of all threads so far: their sum is exact, the share of each is sampled."""
        pids = self.pids()
        user, both = sum(stat(pid)[11] for pid in pids) * TICK, sum(map(processor_clock, pids))
        return user, both - user

    def resident(self):
        """Bytes resident, pages shared between the processes counted for each."""
        return sum(stat(pid)[21] for pid in self.pids()) * os.sysconf("SC_PAGE_SIZE")

    def _wait_until_it_listens(self):
        wait_for(lambda: self._answers() or not self._runs(), 10)
        if not self._runs() or not self._answers():
            raise SystemExit(f"{self.child.args[3]} does not listen: {self.output.read_text(errors='replace')[-2000:]}")

    def _answers(self):
        with suppress(OSError), socket.create_connection(self.address, timeout=1):
            return True
        return False

    def _runs(self):
        return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def wait_for(condition, seconds):
    """Until it holds or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def children(pid):
    """The children of all threads of a process."""
    pids = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            pids += map(int, file.read_text().split())
    return pids


def processor_clock(pid):
    """Seconds of processor time of a process, to the nanosecond; see clock_getcpuclockid(3), which Python lacks."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def stat(pid):
    """The numbers of /proc/PID/stat from the parent's id on ("state" is dropped); see proc_pid_stat(5)."""
    try:
        # The name before the last parenthesis may itself hold anything.
        text = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return [0] * 50
    state, *numbers = text.split()
    return [0, *map(int, numbers)]


def free_address():
    """A loopback address nobody listens on, below the ports that connections of our own may take."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return "127.0.0.1", port
    raise SystemExit("no free port on 127.0.0.1")
