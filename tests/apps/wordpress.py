"""WordPress from Debian on PHP's own server, with a MariaDB of its own behind a Unix socket.

WordPress answers 200 to a wrong password and 302 to a right one.
"""

import os
import re
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import wordpress_visits
from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until

FILES = Path(__file__).parent / "wordpress"
FORM = "/wp-login.php"


class WordPress:
    """A running site; `site` is the address that its links and redirects carry."""

    title = "WordPress"
    preset = "wordpress"
    gate = FILES / "gate.toml"
    page = FORM
    file = "/wp-includes/js/jquery/jquery.js"
    hydra = f"{FORM}:log=^USER^&pwd=^PASS^:S=wordpress_logged_in"
    welcome = "<title>Dashboard"
    failure = "is incorrect"
    preset, form, success = "wordpress", FORM, 302

    def __init__(self, address, log, token):
        self.address, self.log, self.token = address, log, token

    @classmethod
    @contextmanager
    def start(cls, directory, address, site, mailbox="/dev/null"):
        """Database, tables, two accounts and the server, for the length of the block; mails go to the end of a file."""
        root = directory / "root"
        shutil.copytree("/usr/share/wordpress", root, ignore=shutil.ignore_patterns(".htaccess"))
        shutil.copy(FILES / "wp-config.php", root)
        with database(directory) as env:
            env |= {"APP_SITE": site, "PHP_CLI_SERVER_WORKERS": "4", "WP_ENVIRONMENT_TYPE": "local"}
            token = install(root, env, directory)
            log = directory / "php.log"
            server = ["php", *SETTINGS, "-d", f"sendmail_path=cat >> {mailbox} #", "-S", "%s:%d" % address, "-t", str(root)]
            with running("php -S", server, log, env) as server:
                wait_until(lambda: accepts(address), server)
                yield cls(address, log, token)

    def posts(self):
        """Sign-in attempts that the application's own log counts."""
        return len(re.findall(rf"\]: POST {FORM}", self.log.read_text(errors="replace")))

    @staticmethod
    def attempt(password):
        """The form as it is sent."""
        return urlencode({"log": USER, "pwd": password})

    @staticmethod
    def sign_in(browser, _page, password):
        """Sends the form as the page has it; a right password ends on the dashboard."""
        return browser.post(FORM, {"log": USER, "pwd": password, "testcookie": "1", "redirect_to": "/wp-admin/"})

    def visits(self, visitor):
        """What is recorded of it."""
        wordpress_visits.all_doors(visitor, self.token)


# No mail, no warnings of an older WordPress on a newer PHP inside the pages, and no file compiled for each request anew.
SETTINGS = ["-d", "sendmail_path=true", "-d", "display_errors=0", "-d", "opcache.enable_cli=1"]


@contextmanager
def database(directory):
    """A MariaDB without a network port and with one ordinary account; yields how WordPress reaches it."""
    socket, accounts, password = directory / "db.sock", directory / "accounts.sql", secrets.token_hex(16)
    options = ["--no-defaults", f"--datadir={directory}/data", f"--tmpdir={scratch(directory)}"]
    options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"]  # it is thrown away
    if os.getuid() == 0:
        options.append("--user=root")  # MariaDB wants to be told that root means it
    # --force: it need not find the name of this machine, which is not used.
    call(["mariadb-install-db", *options, "--skip-test-db", "--force"], directory / "mariadb-install.log")
    accounts.write_text(
        "CREATE DATABASE wordpress;\n"
        f"CREATE USER wordpress@localhost IDENTIFIED BY '{password}';\n"
        "GRANT ALL ON wordpress.* TO wordpress@localhost;\n"
    )
    options += ["--skip-networking", f"--socket={socket}", f"--pid-file={directory}/db.pid", f"--init-file={accounts}"]
    with running("mariadbd", ["mariadbd", *options], directory / "mariadb.log") as server:
        wait_until(socket.exists, server)
        yield {"APP_DB_SOCKET": str(socket), "APP_DB_PASSWORD": password}


def scratch(directory):
    """A place for temporary tables: a MariaDB that starts clears away those of every other one in the same place."""
    place = directory / "tmp"
    place.mkdir()
    return place


def install(root, env, directory):
    """Creates the tables and the accounts; returns a password of the first one for applications."""
    accounts = [USER, PASSWORD, OTHER, OTHERS_PASSWORD]
    call(["php", *SETTINGS, str(FILES / "install.php"), str(root), *accounts], directory / "install.log", env)
    return call(["php", *SETTINGS, str(FILES / "token.php"), str(root), USER], directory / "token.log", env)
