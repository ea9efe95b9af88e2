"""The tollgate binary in front of one application."""

import re
import urllib.request
from contextlib import contextmanager
from string import Template

from processes import free_address, running, stop, url, wait_until
from report import Wrong


class Gate:
    """A running gate; `admin` is where its metrics are."""

    def __init__(self, admin):
        self.admin = admin

    @classmethod
    @contextmanager
    def start(cls, binary, template, directory, listen, upstream, rate, **words):
        """The gate for the length of the block; it must then end when asked, and well."""
        gate, log = cls(url(free_address())), directory / "gate.log"
        places = {"listen": url(listen), "upstream": url(upstream), "admin": gate.admin}
        file = directory / "tollgate.toml"
        file.write_text(Template(template.read_text()).substitute(places, rate=rate, access=directory / "access.log", **words))
        with running("tollgate", [binary, "run", "-c", str(file)], log) as process:
            wait_until(gate.ready, process)
            yield gate
            if code := stop(process):
                raise Wrong(f"tollgate ended with {code} when asked to stop; its log is\n{log.read_text()}")

    def ready(self):
        """Whether /readyz says so."""
        try:
            self.ask("/readyz")
        except OSError:
            return False
        return True

    def count(self, metric, **labels):
        """The sum of a counter over all series that carry these labels."""
        total = 0
        for name, found, value in re.findall(r"^(\w+)\{(.*?)\} (\S+)", self.ask("/metrics"), re.M):
            if name == metric and labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', found)).items():
                total += float(value)
        return int(total)

    def ask(self, path):
        """An answer of the admin listener, never by way of a proxy from the environment."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.admin + path, timeout=5) as answer:
            return answer.read().decode()
