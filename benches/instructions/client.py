"""One client of the gate, who sends one request after the other over one connection; and the application behind it.

The application answers at once, so that a measurement takes as long as the gate takes.
"""

import socket
import ssl
import threading

import h2.connection
import h2.events

from cases import ANSWERS


class Http1:
    """Requests as bytes over HTTP/1.1."""

    def __init__(self, address, request):
        self.request, self.socket = request, socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb")

    def ask(self):
        """Sends the request once; the status of its answer."""
        self.socket.sendall(self.request)
        status = int(self.answers.readline()[9:12])
        length = 0
        while (line := self.answers.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.answers.read(length)
        return status

    def close(self):
        self.answers.close()
        self.socket.close()


class FreshHttp1:
    """The same with a new connection for each request."""

    def __init__(self, address, request):
        self.address, self.request = address, request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
        Http1(address, self.request).close()

    def ask(self):
        """Sends the request once; the status of its answer."""
        client = Http1(self.address, self.request)
        status = client.ask()
        client.close()
        return status

    def close(self):
        """Nothing is left open."""


class Http2:
    """The same request over HTTP/2 and, unless it is plain, TLS."""

    def __init__(self, address, request, is_plain):
        plain = socket.create_connection(address, timeout=60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain if is_plain else encrypted(plain)
        self.connection = h2.connection.H2Connection()
        self.connection.initiate_connection()
        self.fields, self.body = fields_of(request)

    def ask(self):
        """Sends the request once; the status of its answer."""
        stream, status = self.connection.get_next_available_stream_id(), None
        self.connection.send_headers(stream, self.fields, end_stream=not self.body)
        if self.body:
            self.connection.send_data(stream, self.body, end_stream=True)
        while True:
            self.socket.sendall(self.connection.data_to_send())
            for event in self.connection.receive_data(self.socket.recv(65536)):
                match event:
                    case h2.events.ResponseReceived():
                        status = int(dict(event.headers)[b":status"])
                    case h2.events.DataReceived():
                        self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    case h2.events.StreamEnded():
                        return status
                    case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                        raise SystemExit(f"the gate ended the stream: {event}")

    def close(self):
        self.socket.close()


def encrypted(plain):
    """The same connection with TLS, of whatever certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain)


def fields_of(request):
    """The header fields of a request in HTTP/1.1 as HTTP/2 has them, and its body."""
    head, body = request.split(b"\r\n\r\n", 1)
    line, *lines = head.split(b"\r\n")
    method, path, _ = line.split(b" ")
    fields = [line.split(b": ", 1) for line in lines]
    host = next(value for name, value in fields if name == b"Host")
    pseudo = [(b":method", method), (b":scheme", b"https"), (b":authority", host), (b":path", path)]
    return pseudo + [(name.lower(), value) for name, value in fields if name not in (b"Host", b"Connection")], body


class Application:
    """Answers every request on its connections with what its path asks for."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        lines = connection.makefile("rb")
        while line := lines.readline():
            path, length = line.split(b" ")[1].decode(), 0
            while (line := lines.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            lines.read(length)
            connection.sendall(ANSWERS.get(path, ANSWERS["/"]))
