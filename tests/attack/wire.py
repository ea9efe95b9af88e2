"""HTTP/1: how a draft looks in bytes, connections from an address of one's own, and what matters of the answers."""

import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field

from draft import basic
from edits import wrapped

PATIENCE = 4  # seconds for an answer
MOST = 4 << 20  # bytes of an answer that are read


@dataclass
class Answer:
    """What came back."""

    status: int = 0  # 0: nothing that could be read
    head: str = ""
    body: bytes = b""
    complete: bool = False

    def header(self, name):
        """The first line of that name."""
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None


@dataclass
class Message:
    """A request in bytes: its head, and its body as it is sent."""

    head: bytes
    body: bytes
    wants_to_wait: bool = False
    hang_up: str = ""
    method: str = "GET"
    pieces: list = field(default_factory=list)

    def raw(self):
        """All of it."""
        return self.head + self.body


def write(draft, site, proxied=None):
    """A draft as bytes; `proxied` is what a proxy in front adds: the name of a header, and its client's address there."""
    body = draft.body()
    body = None if body is None else wrapped(body, draft.wrap)
    lines = [f"{draft.method} {draft.target.format(path=draft.whole_path())} {draft.version}"]
    host = site if draft.host is True else draft.host
    if host is not None:
        lines.append(f"Host: {host}")
    headers, sent = framed(draft, body)
    headers = [*draft.headers, *headers]
    if proxied:
        headers = behind_a_proxy(headers, *proxied)
    lines += [*draft.lines, *(f"{name}: {value}" for name, value in headers)]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
    waits = any(name == "Expect" for name, _ in headers)
    return Message(head, sent, waits, draft.hang_up, draft.method)


def framed(draft, body):
    """Headers of the body and the cookies, and the body as it is sent."""
    headers = [["Cookie", "; ".join(draft.cookies)]] if draft.cookies else []
    if body is None:
        return headers + ([["Content-Length", "0"]] if draft.framing == "zero" else []), b""
    if (kind := draft.type()) is not None:
        headers.append(["Content-Type", kind])
    length, way = str(len(body)), draft.framing
    said = {
        "length": length,
        "half-close": length,
        "plus": f"+{length}",
        "zero": "0",
        "quoted": f'"{length}"',
        "comma": f"{length}, {length}",
    }
    if way in said:
        return [*headers, ["Content-Length", said[way]]], body
    if way in ("none", "close"):
        return [*headers, ["Connection", "close"]], body
    coding = {"CHUNKED": "CHUNKED", "identity": "identity", "gzip-chunked": "gzip, chunked"}.get(way, "chunked")
    headers.append(["Transfer-Encoding", coding])
    if way == "both":
        headers.append(["Content-Length", length])
    return headers, body if way == "identity" else chunked(body, way, basic(draft.guesses["b"]))


def chunked(body, way, credentials):
    """The chunked coding, in small pieces, with extensions, or with a trailer that says something."""
    size = 7 if way == "small" and len(body) < 10_000 else max(1, len(body))
    extension = b';a="\\"' if way == "extension" else b""
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    trailer = b"Content-Type: text/plain\r\nAuthorization: %s\r\n" % credentials.encode() if way == "trailer" else b""
    return (
        b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"
    )


def behind_a_proxy(headers, name, client):
    """As nginx's `$proxy_add_x_forwarded_for` has it: what the client said, and who it is."""
    said = [value for one, value in headers if one == name]
    return [*(one for one in headers if one[0] != name), [name, ", ".join([*said, client])]]


class Connection:
    """A client's connections to one address, from one of its own; opened when one is needed."""

    def __init__(self, address, source, tls=False):
        self.address, self.source, self.tls, self.socket, self.read = address, source, tls, None, b""

    def send(self, message):
        """One request and its answer; what the client did not wait for is an answer without a status."""
        try:
            self.open()
            if not self.hand_over(message):
                return Answer()
            return self.answer(message.method)
        except (OSError, ValueError):
            self.close()
            return Answer()

    def send_all(self, messages):
        """All requests at once, then their answers."""
        try:
            self.open()
            self.socket.sendall(b"".join(message.raw() for message in messages))
            answers = []
            for message in messages:
                answers.append(self.answer(message.method))
                if self.socket is None:
                    break
        except (OSError, ValueError):
            self.close()
            answers = []
        return answers + [Answer()] * (len(messages) - len(answers))

    def hand_over(self, message):
        """Sends; returns whether the client stays for the answer."""
        if message.hang_up == "early" and message.body:
            self.socket.sendall(message.head + message.body[: len(message.body) // 2])
        else:
            self.socket.sendall(message.raw())
        if message.hang_up in ("half", "early"):
            self.socket.shutdown(socket.SHUT_WR)
            return True
        if message.hang_up == "read-one":
            self.socket.recv(1)
        if message.hang_up == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if message.hang_up:
            self.close()
        return not message.hang_up

    def open(self):
        """Connects, unless it is."""
        if self.socket is not None:
            return
        self.socket = socket.create_connection(self.address, timeout=PATIENCE, source_address=(self.source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = b""
        if self.tls:
            self.socket = trusting(self.tls).wrap_socket(self.socket, server_hostname="app.example")

    def close(self):
        """Ends it."""
        if self.socket is not None:
            with suppress(OSError):
                self.socket.close()
        self.socket = None

    def more(self):
        """Reads what is there; the end is an error."""
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise ConnectionError("the end")
        self.read += piece
        if len(self.read) > MOST:
            raise ValueError("too long")

    def answer(self, method):
        """Reads one answer, past those that only announce it."""
        while True:
            while b"\r\n\r\n" not in self.read:
                self.more()
            head, _, self.read = self.read.partition(b"\r\n\r\n")
            answer = Answer(int(head.split(b" ", 2)[1]), head.decode("latin-1"))
            if answer.status >= 200:
                break
            if answer.status == 101:
                self.close()
                return answer
        try:
            answer.body = b"" if method == "HEAD" or answer.status in (204, 304) else self.body(answer)
            answer.complete = True
        except (OSError, ValueError):
            answer.body, self.read = self.read, b""
            self.close()
        if "close" in (answer.header("connection") or "").lower() or answer.head.startswith("HTTP/1.0"):
            self.close()
        return answer

    def body(self, answer):
        """The body, by what the head says of it."""
        if "chunked" in (answer.header("transfer-encoding") or ""):
            return self.chunks()
        if (length := answer.header("content-length")) is not None:
            return self.take(int(length))
        with suppress(ConnectionError):
            while True:
                self.more()
        whole, self.read = self.read, b""
        self.close()
        return whole

    def chunks(self):
        """Chunks up to the empty one; trailers are read and left."""
        whole = b""
        while size := int(self.line().split(b";")[0], 16):
            whole += self.take(size + 2)[:-2]
        while self.line():
            pass
        return whole

    def line(self):
        """Up to the end of a line."""
        while b"\r\n" not in self.read:
            self.more()
        line, _, self.read = self.read.partition(b"\r\n")
        return line

    def take(self, count):
        """Exactly so many bytes."""
        while len(self.read) < count:
            self.more()
        taken, self.read = self.read[:count], self.read[count:]
        return taken


def trusting(protocol):
    """TLS with any server: the certificate is not what is tested."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context
