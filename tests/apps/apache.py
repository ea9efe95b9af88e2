"""A form in the index of a directory, behind Apache with PHP: what Apache makes of a path, without any application."""

import shutil
from contextlib import contextmanager
from pathlib import Path

from processes import accepts, running, wait_until

FILES = Path(__file__).parent / "apache"
FORM = FILES / "admin"


class Apache:
    """A running server; `preset` is the name of its file, since no preset is about it."""

    title = "Apache with PHP"
    preset = "apache-php"
    match = ["POST /admin/index.php"]

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """The server, for the length of the block."""
        root = directory / "root"
        shutil.copytree(FORM, root / "admin")
        for place in (directory, root, root / "admin"):
            place.chmod(0o755)  # Apache gives up root's rights, and the place is for its owner alone
        env = {"APP_ADDRESS": "%s:%d" % address, "APP_DIRECTORY": str(directory)}
        command = ["apache2", "-d", str(directory), "-f", str(FILES / "apache.conf"), "-D", "FOREGROUND"]
        with running("apache2", command, directory / "apache.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()
