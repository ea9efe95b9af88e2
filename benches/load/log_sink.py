"""Takes log lines from one TCP connection and appends them to a file, as a log server beside HAProxy does."""

import socket
import threading


class LogSink:
    """Listens on `address` until it is closed; the file gets what arrives."""

    def __init__(self, file):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address, self.file = self.listener.getsockname(), file
        file.touch()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.listener.close()

    def _serve(self):
        connection, _ = self.listener.accept()
        # Appending, because the file is cut short between measurements.
        with connection, open(self.file, "ab", buffering=0) as log:
            while chunk := connection.recv(1 << 20):
                log.write(chunk)
