"""An application with a sign-in form without accounts: answers every POST with 401."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Form(BaseHTTPRequestHandler):
    """Says no."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", 8081), Form).serve_forever()
