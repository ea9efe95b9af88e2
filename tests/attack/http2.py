"""HTTP/2, as little of it as a client needs that says what no library would let it say.

Heads are written without any table and without Huffman's code, and the server is told to keep no table, so the status
of an answer can be read off its first field.
"""

import struct
from contextlib import suppress

from edits import wrapped
from wire import Answer, Connection

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
STATIC = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
DIGITS = {
    "00000": "0",
    "00001": "1",
    "00010": "2",
    "011001": "3",
    "011010": "4",
    "011011": "5",
    "011100": "6",
    "011101": "7",
    "011110": "8",
    "011111": "9",
}
PIECE = 16_000


def fields(draft, site, has_body):
    """The names and values of a request's head."""
    host = site if draft.host is True else draft.host
    pairs = [(":method", draft.method), (":scheme", "https"), (":path", draft.target.format(path=draft.whole_path()))]
    pairs += [(":authority", host)] if host is not None else []
    pairs += [(name.lower(), value) for name, value in draft.headers]
    pairs += [("cookie", one) for one in draft.cookies]
    if has_body and draft.type() is not None:
        pairs.append(("content-type", draft.type()))
    return pairs


def block(pairs):
    """A head: each field a literal."""
    written = b""
    for name, value in pairs:
        written += b"\0" + string(name.encode("latin-1", "replace")) + string(value.encode("latin-1", "replace"))
    return written


def string(text):
    """Its length, in seven bits and more where it is longer, and itself."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, length = len(text) - 127, b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + text


def frame(kind, flags, stream, payload):
    """A frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def request(draft, site, stream):
    """The frames of one request."""
    body = draft.body()
    body = b"" if body is None else wrapped(body, draft.wrap)
    head = block(
        fields(draft, site, bool(body))
        + ([("content-length", str(len(body)))] if body and draft.framing == "length" else [])
    )
    ends = 0 if body or draft.framing == "chunked" else 1
    frames, rest = frame(HEADERS, ends | (0 if len(head) > PIECE else 4), stream, head[:PIECE]), head[PIECE:]
    while rest:
        frames += frame(9, 0 if len(rest) > PIECE else 4, stream, rest[:PIECE])
        rest = rest[PIECE:]
    if ends:
        return frames
    pieces = [body[start : start + PIECE] for start in range(0, len(body), PIECE)] or [b""]
    size = 7 if draft.framing == "small" and len(body) < 1_000 else PIECE
    if size < PIECE:
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
    trailers = draft.framing == "trailer"
    for number, piece in enumerate(pieces):
        frames += frame(DATA, number == len(pieces) - 1 and not trailers, stream, piece)
    return frames + (frame(HEADERS, 5, stream, block([("x", "y")])) if trailers else b"")


class Client(Connection):
    """One connection; requests on streams of their own, one after the other or all at once."""

    def __init__(self, address, source, tls="h2"):
        super().__init__(address, source, tls)
        self.stream = 1

    def exchange(self, drafts, site, at_once):
        """The answers to all drafts; one that broke off has no status."""
        answers = {}
        try:
            self.begin()
            streams = []
            for draft in drafts:
                streams.append(self.stream)
                self.socket.sendall(request(draft, site, self.stream))
                self.stream += 2
                if draft.hang_up:
                    self.socket.sendall(frame(RESET, 0, streams[-1], struct.pack(">I", 8)))
                    answers[streams[-1]] = Answer()
                elif not at_once:
                    self.collect([streams[-1]], answers)
            self.collect(streams, answers)
        except (OSError, ValueError):
            pass
        self.close()
        answers = [answers.get(1 + 2 * number, Answer()) for number in range(len(drafts))]
        return answers

    def begin(self):
        """Preface, no table, and windows that nothing fills."""
        self.open()
        if self.tls and self.socket.selected_alpn_protocol() != "h2":
            raise ValueError("not HTTP/2")
        settings = struct.pack(">HIHI", 1, 0, 4, 1 << 24)
        window = frame(WINDOW, 0, 0, struct.pack(">I", 1 << 24))
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, settings) + window)

    def collect(self, streams, answers):
        """Reads until all these streams have ended."""
        while any(stream not in answers or not answers[stream].complete for stream in streams):
            while len(self.read) < 9:
                self.more()
            length = int.from_bytes(self.read[:3], "big")
            head = self.take(9)
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
            payload = self.take(length)
            if kind == SETTINGS and not flags & 1:
                self.socket.sendall(frame(SETTINGS, 1, 0, b""))
            elif kind == PING and not flags & 1:
                self.socket.sendall(frame(PING, 1, 0, payload))
            elif kind == GOAWAY:
                raise ValueError("sent away")
            elif kind in (DATA, HEADERS, RESET) and stream:
                self.heard(answers.setdefault(stream, Answer()), kind, flags, payload)

    @staticmethod
    def heard(answer, kind, flags, payload):
        """One frame of an answer."""
        if kind == RESET:
            answer.complete = True
            return
        if kind == HEADERS and not answer.status:
            answer.status = status(payload)
        elif kind == DATA:
            answer.body += payload
        if flags & 1:
            answer.complete = True


def status(payload):
    """The value of the first field of an answer's head, if it is one of 200 and above."""
    with suppress(IndexError, KeyError, ValueError):
        while payload[0] & 0xE0 == 0x20:  # a change of the table's size
            payload = payload[1:]
        first = payload[0]
        if first & 0x80:
            return STATIC.get(first & 0x7F, 0)
        length, text = payload[1] & 0x7F, payload[2:]
        if not payload[1] & 0x80:
            found = int(text[:length])
        else:
            found = int(digits(text[:length]))
        return found if found >= 200 else 0
    return 0


def digits(coded):
    """Three digits in Huffman's code."""
    bits, found = "".join(f"{one:08b}" for one in coded), ""
    while len(found) < 3:
        size = next((size for size in (5, 6) if bits[:size] in DIGITS), 0)
        found, bits = found + DIGITS[bits[:size]], bits[size:]  # a code that is no digit is a KeyError
    return found
