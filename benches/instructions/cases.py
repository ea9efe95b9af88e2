"""What is counted: one request each, with the gate's file and what the application answers."""

from dataclasses import dataclass
from urllib.parse import urlencode

PLAIN = """
[route.login]
match = "{method} /login"
[limit.address]
rate = "{rate}"
"""
WORDPRESS = """
[route.login]
preset = "wordpress"
[limit.address]
rate = "{rate}"
count = "failures"
[limit.account]
key = "user"
rate = "{rate}"
count = "failures"
"""
SITE = """
[route.{name}]
preset = "wordpress"
host = "{name}.example.org"
upstream_host = "{name}.example.org"
[route.{name}-pages]
match = "ANY /**"
host = "{name}.example.org"
upstream_host = "{name}.example.org"
limits = []
"""
EMPTY, WIDE = "5 per 1000h", "1000000 per 1s"

# As Firefox sends it with a form.
BROWSER = b"""Host: blog.example.org
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8
Accept-Language: en-US,en;q=0.5
Accept-Encoding: gzip, deflate, br, zstd
Content-Type: application/x-www-form-urlencoded
Content-Length: %d
Origin: https://blog.example.org
Connection: keep-alive
Referer: https://blog.example.org/wp-login.php
Cookie: wordpress_test_cookie=WP%%20Cookie%%20check
Upgrade-Insecure-Requests: 1
Sec-Fetch-Dest: document
Sec-Fetch-Mode: navigate
Sec-Fetch-Site: same-origin
Sec-Fetch-User: ?1
Priority: u=0, i"""


@dataclass(frozen=True)
class Case:
    """One request, sent again and again, and the status that it gets."""

    file: str
    request: bytes
    status: int
    http2: bool = False
    # Whether each request comes over a new connection.
    is_fresh: bool = False
    # The kind of decision endpoint that it is sent to.
    endpoint: str = ""
    # How much more than the tolerance its count may differ from run to run.
    spread: float = 0.0
    # Whether HTTP/2 comes without TLS.
    is_plain: bool = False
    # Seconds until the gate has connected to each upstream once.
    rest: float = 0.0


def question(method, path):
    """The question of a proxy about a request as load generators send it."""
    forwarded = {b"Method": method, b"Uri": path, b"Host": b"localhost", b"Proto": b"http", b"For": b"192.0.2.1"}
    lines = b"".join(b"X-Forwarded-%s: %s\r\n" % line for line in forwarded.items())
    return simple(b"GET", b"/").replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n")


def field(number, data):
    """A field of a message, of bytes or of fields."""
    length, prefix = len(data), bytes([number << 3 | 2])
    while length > 127:
        prefix, length = prefix + bytes([length & 127 | 128]), length >> 7
    return prefix + bytes([length]) + data


def check(method, path):
    """Envoy's question of external authorization about a request as load generators send it."""
    lines = {b":authority": b"localhost", b":path": path, b":method": method, b":scheme": b"http", b"user-agent": b"oha/1.4",
             b"accept": b"*/*", b"x-forwarded-proto": b"http", b"x-request-id": b"3f5e8a4e-52dc-4bb2-a0e7-1b9f4c6b1f0a"}
    headers = b"".join(field(3, field(1, name) + field(2, value)) for name, value in lines.items())
    http = field(2, method) + headers + field(4, path) + field(5, b"localhost") + field(6, b"http")
    source = field(1, field(1, field(2, b"192.0.2.1")))
    message = field(1, field(1, source) + field(4, field(2, http)))
    head = b"POST /envoy.service.auth.v3.Authorization/Check HTTP/1.1\r\nHost: gate\r\nContent-Type: application/grpc\r\nTE: trailers\r\n"
    return head + b"\r\n" + b"\0" + len(message).to_bytes(4) + message


def simple(method, path, body=b"", host=b"localhost"):
    """A request as load generators send it."""
    form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n" % len(body) if body else b""
    head = b"%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: oha/1.4\r\nAccept: */*\r\n" % (method, path, host)
    return head + form + b"\r\n" + body


def sign_in(length):
    """A browser's form for wp-login.php, of so many bytes."""
    fields = {"log": "alice@example.org", "pwd": "correct horse battery staple", "rememberme": "forever", "wp-submit": "Log In",
              "redirect_to": "https://blog.example.org/wp-admin/", "testcookie": "1", "csrf_token": ""}
    body = urlencode(fields).encode()
    body += b"f" * (length - len(body))
    return b"POST /wp-login.php HTTP/1.1\r\n" + (BROWSER % len(body)).replace(b"\n", b"\r\n") + b"\r\n\r\n" + body


def plain(method, rate):
    return PLAIN.format(method=method, rate=rate)


def sites(count):
    """A page of the last of so many sites, each with its own upstream; no attempt."""
    names = [f"site{number}" for number in range(1000 - count, 1000)]
    file = "".join(SITE.format(name=name) for name in names) + WORDPRESS[WORDPRESS.index("[limit.address]"):].format(rate=WIDE)
    return Case(file, simple(b"GET", b"/", host=b"site999.example.org"), 200, rest=5.0)


FORM = b"username=alice&password=wrong-password&remember=1"
CASES = {
    "refused-get": Case(plain("GET", EMPTY), simple(b"GET", b"/login"), 429),
    "question-refused": Case(plain("GET", EMPTY), question(b"GET", b"/login"), 429, endpoint="forward-auth"),
    "call-admitted": Case(plain("POST", WIDE), check(b"POST", b"/login"), 200, http2=True, is_plain=True, endpoint="ext-authz"),
    "forwarded-get": Case(plain("GET", WIDE), simple(b"GET", b"/login"), 200),
    "forwarded-post": Case(plain("POST", WIDE), simple(b"POST", b"/login", FORM), 200),
    "wordpress-refused": Case(WORDPRESS.format(rate=EMPTY), sign_in(1024), 429),
    "wordpress-forwarded": Case(WORDPRESS.format(rate=WIDE), sign_in(1024), 200),
    "wordpress-64k": Case(WORDPRESS.format(rate=WIDE), sign_in(65536), 200,
                          spread=0.05),  # the kernel hands out the body in more or fewer pieces
    "one-site": sites(1),
    "thousand-sites": sites(1000),  # two percent above one, all of it by tasks of each second
    "fresh-refused": Case(plain("GET", EMPTY), simple(b"GET", b"/login"), 429, is_fresh=True),
    "fresh-forwarded": Case(plain("GET", WIDE), simple(b"GET", b"/login"), 200, is_fresh=True),
    "http2-refused": Case(plain("GET", EMPTY), simple(b"GET", b"/login"), 429, http2=True),
    "http2-forwarded": Case(plain("GET", WIDE), simple(b"GET", b"/login"), 200, http2=True),
}


def answer(body):
    return b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


ANSWERS = {"/": answer(b"x" * 200)}
