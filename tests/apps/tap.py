"""A counting relay: passes HTTP/1 bytes on untouched and notes every request with its answer and their times.

One sits between the attacker and the gate, one between the gate and the application. It connects onwards from the
address its own caller has, so the gate behind it sees the true client. It has no opinion on what it relays.
"""

import asyncio
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Exchange:
    """One request and, once it has come, its answer; times are seconds of the monotonic clock."""

    peer: str
    method: str
    path: str
    forwarded_for: str
    sent: float  # the head had arrived here and nothing had been passed on yet
    answered: float = None  # the head of the answer had arrived here
    status: int = None
    retry_after: str = None


@contextmanager
def tap(listen, target):
    """Relays `listen` to `target` for the length of the block; yields the growing list of exchanges."""
    exchanges = []
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncio.start_server(lambda *streams: relay(streams, target, exchanges), *listen)
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield exchanges
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def end(server):
    """Closes the listener and every relay still open."""
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def relay(client, target, exchanges):
    """One connection: both directions at once, until the answering side closes."""
    source, sink = client
    peer = sink.get_extra_info("peername")[0]
    onward = None
    try:
        answers, onward = await asyncio.open_connection(*target, local_addr=(peer, 0))
        waiting = deque()
        asking = asyncio.ensure_future(requests(source, onward, peer, waiting, exchanges))
        await responses(answers, sink, waiting)
        asking.cancel()
    except (OSError, asyncio.CancelledError):
        pass  # either side may hang up, and so may we; what was not answered shows in the exchange
    finally:
        for writer in (sink, onward):
            if writer:
                writer.close()


async def requests(source, sink, peer, waiting, exchanges):
    """Client to server. Noted before it is passed on, so that `sent` cannot be later than any effect."""
    try:
        while head := await read_head(source):
            method, path, _ = head.start.split(" ", 2)
            exchange = Exchange(peer, method, path, head.fields.get("x-forwarded-for"), time.monotonic())
            exchanges.append(exchange)
            waiting.append(exchange)
            sink.write(head.raw)
            await pass_body(head, source, sink, until_close=False)
        sink.write_eof()
    except OSError:
        pass  # the answering direction notices as well and closes both


async def responses(source, sink, waiting):
    """Server to client."""
    while head := await read_head(source):
        now, status = time.monotonic(), int(head.start.split()[1])
        sink.write(head.raw)
        if status < 200:
            continue
        exchange = waiting.popleft()
        exchange.answered, exchange.status, exchange.retry_after = now, status, head.fields.get("retry-after")
        if exchange.method != "HEAD" and status not in (204, 304):
            await pass_body(head, source, sink, until_close=True)


@dataclass
class Head:
    """The start line and fields of a message."""

    raw: bytes
    start: str
    fields: dict


async def read_head(source):
    """The next head, or None at the end of the stream."""
    try:
        raw = await source.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    start, *lines = raw.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(raw, start, {name.lower(): value.strip() for name, _, value in pairs})


async def pass_body(head, source, sink, until_close):
    """Passes on the body that `head` announces."""
    if "chunked" in head.fields.get("transfer-encoding", ""):
        await pass_chunks(source, sink)
    elif "content-length" in head.fields:
        await pass_bytes(source, sink, int(head.fields["content-length"]))
    elif until_close:
        while data := await source.read(65536):
            sink.write(data)
    await sink.drain()


async def pass_chunks(source, sink):
    """Chunks up to the empty one, then trailers up to the empty line."""
    size = None
    while size != 0:
        line = await source.readline()
        sink.write(line)
        size = int(line.split(b";")[0], 16)
        if size:
            await pass_bytes(source, sink, size + 2)
    while (line := await source.readline()) not in (b"\r\n", b""):
        sink.write(line)
    sink.write(line)


async def pass_bytes(source, sink, count):
    """Exactly `count` bytes, or what there is before the end of the stream."""
    while count and (data := await source.read(min(count, 65536))):
        sink.write(data)
        count -= len(data)
        await sink.drain()
