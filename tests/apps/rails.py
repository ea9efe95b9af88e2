"""The router of Rails on Puma: what it makes of a path, without an application."""

from contextlib import contextmanager
from pathlib import Path

from processes import accepts, running, wait_until

FILES = Path(__file__).parent / "rails"


class Rails:
    """A running router with addresses of GitLab."""

    title = "Rails: POST /users/sign_in, POST /oauth/token"
    preset = "gitlab"

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """The server, for the length of the block."""
        command = ["puma", "--bind", "tcp://%s:%d" % address, "--threads", "1:4", str(FILES / "config.ru")]
        with running("puma", command, directory / "puma.log", cwd=directory) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()
