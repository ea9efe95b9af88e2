"""A form in the index of a directory, behind nginx with php-fpm: what nginx makes of a path, without any application."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from string import Template

from apache import FORM
from processes import accepts, running, wait_until

FILES = Path(__file__).parent / "nginx"
PHP_FPM = sorted(Path("/usr/sbin").glob("php-fpm*"))


class NginxPhp:
    """A running server; `preset` is the name of its file, since no preset is about it."""

    title = "nginx with php-fpm"
    preset = "nginx-php"
    match = ["POST /admin/index.php"]

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """Both servers, for the length of the block."""
        root = directory / "root"
        shutil.copytree(FORM, root / "admin")
        for place in (directory, root, root / "admin"):
            place.chmod(0o755)  # both give up root's rights, and the place is for its owner alone
        words = {"DIRECTORY": directory, "ADDRESS": "%s:%d" % address}
        for file in ("nginx.conf", "php-fpm.conf"):
            (directory / file).write_text(Template((FILES / file).read_text()).substitute(words))
        fpm = [str(PHP_FPM[-1]), "-F", "-y", str(directory / "php-fpm.conf")]
        nginx = ["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf")]
        with running("php-fpm", fpm, directory / "fpm.log") as php:
            wait_until((directory / "php.sock").exists, php)
            with running("nginx", nginx, directory / "nginx.log") as server:
                wait_until(lambda: accepts(address), server)
                yield cls()
