"""A person's browser: one source address, cookies, redirects, and the style sheets and scripts that a page names."""

import functools
import html
import http.client
import re
import time
import urllib.error
import urllib.parse
import urllib.request


class Page:
    """An answer as a browser shows it, after redirects."""

    def __init__(self, answer):
        self.url, self.status = answer.url, answer.status
        self.body = answer.read()
        self.text = self.body.decode("utf-8", "replace")

    def assets(self):
        """The addresses of its scripts and style sheets."""
        scripts = re.findall(r"<script[^>]+src=['\"]([^'\"]+)", self.text)
        styles = re.findall(r"<link[^>]+stylesheet[^>]+href=['\"]([^'\"]+)", self.text)
        return [urllib.parse.urljoin(self.url, html.unescape(found)) for found in scripts + styles]

    def __str__(self):
        title = re.search(r"<title>(.*?)</title>", self.text, re.S)
        return f"{self.status} at {self.url} ({html.unescape(title[1]).strip() if title else 'no title'})"


class Browser:
    """Visits one site from one address."""

    def __init__(self, site, source):
        self.site, self.source = site, source
        self.slowest = 0.0
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(), FromAddress(source)
        )

    def get(self, path):
        """The page at `path`, which may be a full address."""
        return self.open(path)

    def post(self, path, fields):
        """The page that follows after a form was sent."""
        return self.open(path, urllib.parse.urlencode(fields).encode())

    def load(self, path):
        """The page and what it needs to be shown: returns the page and the statuses of the rest."""
        page = self.get(path)
        return page, [self.get(asset).status for asset in page.assets()]

    def open(self, path, data=None):
        """Error statuses are pages too: a person sees them, and so does the report."""
        began = time.monotonic()
        try:
            return Page(self.opener.open(urllib.parse.urljoin(self.site, path), data, timeout=30))
        except urllib.error.HTTPError as refused:
            return Page(refused)
        finally:
            self.slowest = max(self.slowest, time.monotonic() - began)


class FromAddress(urllib.request.HTTPHandler):
    """Connects from a chosen loopback address."""

    def __init__(self, source):
        super().__init__()
        self.connection = functools.partial(http.client.HTTPConnection, source_address=(source, 0))

    def http_open(self, request):
        """Called by urllib for each request."""
        return self.do_open(self.connection, request)
