"""A client at another address that asks at a steady pace and notes how long each answer took from when it was due."""

import asyncio
import threading
import time

REQUEST = b"GET / HTTP/1.1\r\nHost: app.test\r\n\r\n"


class Probe(threading.Thread):
    """Runs until it is told to stop."""

    def __init__(self, port, rate=200, connections=10, source="127.0.0.9"):
        super().__init__(daemon=True)
        self.port, self.source = port, source
        self.pause, self.count = connections / rate, connections
        self.times, self.errors, self.over = [], [], False

    def run(self):
        asyncio.run(self.all())

    async def all(self):
        await asyncio.gather(*(self.one(number) for number in range(self.count)))

    async def one(self, number):
        reader = writer = None
        due = time.monotonic() + number * self.pause / self.count
        while not self.over:
            await asyncio.sleep(max(0, due - time.monotonic()))
            try:
                if writer is None:
                    opened = asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.source, 0))
                    reader, writer = await asyncio.wait_for(opened, 10)
                writer.write(REQUEST)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                if not head.startswith(b"HTTP/1.1 200 "):
                    raise OSError(head.split(b"\r\n")[0].decode())
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await asyncio.wait_for(reader.readexactly(length), 10)
                self.times.append(time.monotonic() - due)
            except (OSError, EOFError, asyncio.TimeoutError, asyncio.IncompleteReadError) as error:
                self.errors.append(repr(error))
                if writer is not None:
                    writer.close()
                reader = writer = None
            # Whoever is late asks at once, and what waited meanwhile counts as waiting.
            due += self.pause

    def stop(self):
        self.over = True
        self.join(30)
        return self

    def quantile(self, part):
        """Milliseconds."""
        times = sorted(self.times)
        return 1000 * times[min(len(times) - 1, int(part * len(times)))] if times else float("inf")
