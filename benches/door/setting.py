"""A gate with an application behind it, and what the kernel and the gate say of it."""

import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

FILE = """
listen = ["http://127.0.0.1:{plain}", "https://127.0.0.1:{tls}"]
upstream = "http://127.0.0.1:{upstream}"
[route.login]
match = "POST /login"
[limit.address]
rate = "1 per 1h"
[tls]
certificates = [{{ cert = "ecdsa.pem", key = "ecdsa.key" }}, {{ cert = "rsa.pem", key = "rsa.key" }}]
[admin]
listen = ["http://127.0.0.1:{admin}"]
[log]
access = "access.log"
[proxy]
{proxy}
"""

UPSTREAM = """
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx.err;
events {{ worker_connections 8192; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; default_type text/plain;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/f;
    uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
    server {{
        listen 127.0.0.1:{upstream} backlog=8192;
        root {directory}/files;
        location / {{ return 200 "hello\\n"; }}
        location /large {{ }}
    }}
}}
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def make_certificates(directory):
    """An authority of our own, and a certificate of each kind by it."""
    def run(*words):
        subprocess.run(words, cwd=directory, check=True, capture_output=True)

    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650",
        "-subj", "/CN=Test authority", "-keyout", "ca.key", "-out", "ca.pem")
    for name, kind in {"ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"]}.items():
        run("openssl", "req", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}.test",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")
        extensions = f"subjectAltName=DNS:{name}.test\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth\n"
        (directory / f"{name}.ext").write_text(extensions)
        run("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "90", "-extfile", f"{name}.ext", "-out", f"{name}.pem")


class Setting:
    """Started when entered, gone when left."""

    def __init__(self, binary, directory, proxy=""):
        self.binary, self.directory, self.proxy = binary, Path(directory), proxy
        self.plain, self.tls, self.admin, self.upstream = free_ports(4)

    def __enter__(self):
        ports = dict(plain=self.plain, tls=self.tls, admin=self.admin, upstream=self.upstream)
        (self.directory / "files").mkdir(exist_ok=True)
        (self.directory / "files/large").write_bytes(b"x" * (4 << 20))
        (self.directory / "nginx.conf").write_text(UPSTREAM.format(directory=self.directory, **ports))
        (self.directory / "gate.toml").write_text(FILE.format(proxy=self.proxy, **ports))
        with open(self.directory / "messages", "ab") as messages:
            self.processes = [
                subprocess.Popen(["nginx", "-e", "stderr", "-p", self.directory, "-c", self.directory / "nginx.conf"],
                                 stderr=messages),
                subprocess.Popen([self.binary, "run", "-c", self.directory / "gate.toml"], stderr=messages),
            ]
        end = time.monotonic() + 10
        while not self.answers():
            if time.monotonic() > end or self.processes[1].poll() is not None:
                self.__exit__()
                raise SystemExit((self.directory / "messages").read_text()[-2000:])
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def answers(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.plain}/", timeout=1).status == 200
        except OSError:
            return False

    def runs(self):
        return self.processes[1].poll() is None

    def resident(self):
        """MiB."""
        status = Path(f"/proc/{self.processes[1].pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def metrics(self):
        """Values by name with labels."""
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5).read().decode()
        lines = [line.rsplit(" ", 1) for line in page.splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, value in lines}
