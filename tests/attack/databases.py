"""The databases that `account_names.py` asks, each started for itself."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

from account_names import Names
from own_sites import reach
from processes import accepts, call, free_address, running, wait_until
from wordpress import database


class MariaDb(Names):
    """As tests/apps has it."""

    name, kind = "accounts-mariadb", "mariadb"

    @staticmethod
    @contextmanager
    def database(directory):
        """For the length of the block."""
        with database(directory) as env:
            yield env | {"DATABASE_AT": env["APP_DB_SOCKET"]}


class PostgreSql(Names):
    """A cluster of its own; not root's, which PostgreSQL does not want."""

    name, kind = "accounts-postgresql", "postgresql"

    @staticmethod
    @contextmanager
    def database(directory):
        """For the length of the block."""
        programs = max(Path("/usr/lib/postgresql").iterdir()) / "bin"
        place, run = directory / "cluster", []
        place.mkdir()
        if os.getuid() == 0:
            reach(directory)
            call(["chown", "postgres", str(place)], directory / "chown.log")
            run = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        options = [
            "-D",
            f"{place}/data",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
        ]
        call([*run, str(programs / "initdb"), *options], directory / "initdb.log")
        command = [*run, str(programs / "postgres"), "-D", f"{place}/data", "-k", str(place), "-c", "listen_addresses="]
        with running("postgres", [*command, "-c", "fsync=off"], directory / "postgres.log") as server:
            wait_until((place / ".s.PGSQL.5432").exists, server)
            time.sleep(1)  # it accepts a little later
            yield {"DATABASE_AT": str(place)}


class Sqlite(Names):
    """A file."""

    name, kind = "accounts-sqlite", "sqlite"

    @staticmethod
    @contextmanager
    def database(directory):
        """For the length of the block."""
        yield {"DATABASE_AT": str(directory / "accounts.db")}


SLAPD = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile {directory}/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix dc=site
rootdn cn=root,dc=site
rootpw root
directory {directory}/ldap
index uid,mail eq
"""


class Ldap(Names):
    """OpenLDAP's slapd."""

    name, kind = "accounts-ldap", "ldap"

    @staticmethod
    @contextmanager
    def database(directory):
        """For the length of the block."""
        (directory / "ldap").mkdir()
        (directory / "slapd.conf").write_text(SLAPD.format(directory=directory))
        address = free_address()
        at = "ldap://%s:%d" % address
        command = ["/usr/sbin/slapd", "-d", "0", "-h", at, "-f", str(directory / "slapd.conf")]
        with running("slapd", command, directory / "slapd.log") as server:
            wait_until(lambda: accepts(address), server)
            yield {"DATABASE_AT": at}


DATABASES = (MariaDb, PostgreSql, Sqlite, Ldap)
