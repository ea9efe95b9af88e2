"""A gate with limits by address, network and account, and an application that knows one password; for the dashboard."""

import http.client
import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import time

from challenge import free_port

TOKEN = "0123456789abcdef0123456789abcdef"

LIMITS = """listen = "http://127.0.0.1:{gate}"
upstream = "http://127.0.0.1:{application}"
sandbox = "off"
[admin]
listen = "http://127.0.0.1:{admin}"
token = "{token}"
[client]
trust = ["127.0.0.1"]
[route.login]
match = "POST /login"
user = "form:user"
failure = [{{ status = 401 }}]
success = [{{ status = 200 }}]
[limit.address]
rate = "3 per 1h"
[limit.address.candidate]
rate = "2 per 1h"
[limit.network]
rate = "300 per 1h"
ipv4 = 24
ipv6 = 48
[limit.account]
key = "user"
rate = "2 per 1h"
mode = "observe"
"""

# Nothing listens where its store and its application should be, and its certificate has expired.
TROUBLED = """listen = ["http://127.0.0.1:{gate}", "https://127.0.0.1:{tls}"]
upstream = "http://127.0.0.1:{closed}"
sandbox = "off"
[admin]
listen = "http://127.0.0.1:{admin}"
token = "{token}"
[store]
url = "redis://127.0.0.1:{closed}"
[tls]
certificates = [{{ cert = "tls-expired.pem", key = "tls-good.key" }}]
[route.login]
match = "POST /login"
[limit.address]
rate = "3 per 1h"
"""


class Application(http.server.BaseHTTPRequestHandler):
    """An application that lets people in with the password `right`."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if body.endswith(b"=right") else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Gate:
    """A running gate with this file. Use it in a `with` statement."""

    def __init__(self, binary, text):
        self.application = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application)
        threading.Thread(target=self.application.serve_forever, daemon=True).start()
        self.ports = {name: free_port() for name in ("gate", "admin", "tls", "closed")}
        self.directory = tempfile.mkdtemp(prefix="tollgate-operator-")
        for name in ("tls-expired.pem", "tls-good.key"):
            shutil.copy(os.path.join(os.path.dirname(__file__), "../config", name), self.directory)
        with open(os.path.join(self.directory, "gate.toml"), "w", encoding="utf-8") as file:
            file.write(text.format(application=self.application.server_port, token=TOKEN, **self.ports))
        command = [os.path.abspath(binary), "run", "-c", "gate.toml"]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=self.directory, **silent)
        self.admin = f"127.0.0.1:{self.ports['admin']}"
        self._wait()

    def _wait(self):
        for _ in range(300):
            try:
                connection = http.client.HTTPConnection(self.admin, timeout=1)
                connection.request("GET", "/livez")
                connection.getresponse().read()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the gate did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.application.shutdown()
        shutil.rmtree(self.directory, ignore_errors=True)

    def attempt(self, address, user, password="wrong"):
        """An attempt from an address, as a proxy in front passes it on; its status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["gate"], timeout=10)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-For": address}
        connection.request("POST", "/login", f"user={user}&password={password}", headers)
        status = connection.getresponse().status
        connection.close()
        return status
