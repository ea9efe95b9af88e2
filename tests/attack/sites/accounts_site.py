"""A site whose sign-in finds an account as one database compares names, and which writes down whom a guess reached.

Each column compares in another way. `/login/COLUMN` is the sign-in; `/equal/COLUMN` tells whom many names would reach,
and `/columns` what there is. Names are bytes, as PHP would have them.
"""

import json
import os
import sqlite3
import threading
from urllib.parse import parse_qs

from flask import Flask, jsonify, request

AT = os.environ["DATABASE_AT"]
CUT = 20  # characters of a name that a column of that name has
LENGTHS = {"cut": CUT, "wordpress": 60}  # what the gate is told
ACCOUNTS = (
    "margaret administrator anna.maria_3 straße jürgen.öß josé+muñoz ångström81 æsop.fœtus ijsbrand zürich-aé "
    "o'neill ioannis.σωκράτης иван-ёж かなざわ.カナ 김철수7 נחום ประเทศไทย عائشة हिन्दी2 ﬁona łukasz sue.ss coöp"
).split() + ["anna maria", "Ana  Lúcia", "ao"]


class Sql:
    """What databases that speak SQL have in common; a column is its type and how it is compared."""

    columns = {}

    def __init__(self):
        self.own = threading.local()

    def prepare(self, column, accounts):
        """A table with those of the accounts that it can tell apart; returns them."""
        self.run(column, f"CREATE TABLE of_{column} (id INTEGER, login {self.columns[column][0]})")
        kept = []
        for number, account in enumerate(accounts):
            name = account.encode()
            if self.find(column, name) is None and self.insert(column, number, name):
                kept.append(account)
        return kept

    def insert(self, column, number, name):
        """Adds an account; whether the column can hold it."""
        value = "CAST(? AS TEXT)" if self.mark == "?" else self.mark
        try:
            self.run(column, f"INSERT INTO of_{column} VALUES ({number}, {value})", name)
        except Exception:
            return False
        return self.find(column, name) == number

    def find(self, column, name):
        """The number of the account that a name reaches."""
        try:
            found = self.run(column, f"SELECT id FROM of_{column} WHERE {self.columns[column][1]} LIMIT 1", name)
        except Exception:  # a name that the database does not take reaches nobody
            return None
        return found[0][0] if found else None


class MariaDb(Sql):
    """By PyMySQL, whose quoting leaves bytes as they are; a third part is the connection's character set."""

    mark = "%s"
    collations = (
        "utf8mb4_general_ci utf8mb4_unicode_ci utf8mb4_unicode_520_ci utf8mb4_uca1400_ai_ci utf8mb4_0900_ai_ci "
        "utf8mb4_german2_ci latin1_swedish_ci latin1_german1_ci latin1_german2_ci latin1_general_ci"
    ).split()
    columns = {
        one: (f"VARCHAR(60) CHARACTER SET {one.split('_')[0]} COLLATE {one}", "login = %s", "utf8mb4")
        for one in collations
    }
    columns["utf8mb3_general_ci"] = (
        "VARCHAR(60) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
        "login = %s",
        "utf8",
    )
    # As sites of old have it: UTF-8 in a table that takes it for Latin-1.
    columns["latin1_of_utf8"] = (columns["latin1_swedish_ci"][0], "login = %s", "latin1")
    columns["wordpress"] = columns["utf8mb4_unicode_520_ci"]
    columns["cut"] = (columns["utf8mb4_general_ci"][0], f"login = LEFT(%s, {CUT})", "utf8mb4")

    def run(self, column, query, *names):
        """One statement on this thread's connection for the column."""
        import pymysql

        charset = self.columns[column][2]
        kept = self.own.__dict__.setdefault("kept", {})
        if charset not in kept:
            kept[charset] = pymysql.connect(
                unix_socket=AT,
                user="wordpress",
                password=os.environ["APP_DB_PASSWORD"],
                database="wordpress",
                charset=charset,
                autocommit=True,
            )
        encoding = "cp1252" if charset == "latin1" else "utf-8"
        with kept[charset].cursor() as cursor:
            cursor.execute(query, [name.decode(encoding, "surrogateescape") for name in names] or None)
            return cursor.fetchall()


class PostgreSql(Sql):
    """By psycopg2."""

    mark = "%s"
    columns = {
        "citext": ("citext", "login = %s"),
        "level1": ("text COLLATE level1", "login = %s"),
        "lower": ("text", "lower(login) = lower(%s)"),
        "cut": ("citext", f"login = %s::varchar({CUT})::citext"),
    }

    def run(self, _column, query, *names):
        """One statement on this thread's connection."""
        import psycopg2

        if getattr(self.own, "kept", None) is None:
            self.own.kept = psycopg2.connect(host=AT, port=5432, user="postgres", dbname="postgres")
            self.own.kept.autocommit = True
        with self.own.kept.cursor() as cursor:
            cursor.execute(query, [name.decode() for name in names] or None)
            return cursor.fetchall() if cursor.description else []

    def prepare(self, column, accounts):
        """With what the types need."""
        self.run(column, "CREATE EXTENSION IF NOT EXISTS citext")
        level1 = "provider = icu, locale = 'und-u-ks-level1', deterministic = false"
        self.run(column, f"CREATE COLLATION IF NOT EXISTS level1 ({level1})")
        return super().prepare(column, accounts)


class Sqlite(Sql):
    """In a file."""

    mark = "?"
    columns = {
        "nocase": ("TEXT COLLATE NOCASE", "login = CAST(? AS TEXT)"),
        "rtrim": ("TEXT COLLATE RTRIM", "login = CAST(? AS TEXT)"),
        "lower": ("TEXT", "lower(login) = lower(CAST(? AS TEXT))"),
        "cut": ("TEXT COLLATE NOCASE", f"login = substr(CAST(? AS TEXT), 1, {CUT})"),
    }

    def run(self, _column, query, *names):
        """One statement on this thread's connection."""
        if getattr(self.own, "kept", None) is None:
            self.own.kept = sqlite3.connect(AT, isolation_level=None)
        return self.own.kept.execute(query, names).fetchall()


class Ldap:
    """By ldap3; a column is an attribute."""

    columns = {"uid": (), "mail": ()}

    def __init__(self):
        self.own = threading.local()

    def connection(self):
        """This thread's."""
        import ldap3

        if getattr(self.own, "kept", None) is None:
            server = ldap3.Server(AT, get_info=ldap3.NONE)
            self.own.kept = ldap3.Connection(
                server, "cn=root,dc=site", "root", auto_bind=True, check_names=False, raise_exceptions=False
            )
        return self.own.kept

    def prepare(self, column, accounts):
        """An entry for each account that the attribute can hold and tell from the others; returns them."""
        connection, kept = self.connection(), []
        connection.add("dc=site", ["dcObject", "organization"], {"dc": "site", "o": "site"})
        for number, account in enumerate(accounts):
            fields = {"sn": "x", column: account}
            if self.find(column, account.encode()) is None:
                connection.add(f"cn={column}-{number},dc=site", ["inetOrgPerson"], fields)
                kept += [account] if self.find(column, account.encode()) == number else []
        return kept

    def find(self, column, name):
        """The number of the account that a name reaches."""
        connection, name = self.connection(), "".join(f"\\{byte:02x}" for byte in name)
        connection.search("dc=site", f"({column}={name})", attributes=["cn"])
        names = [one["dn"] for one in connection.response or () if one.get("dn")]
        return int(names[0].partition("-")[2].partition(",")[0]) if names else None


app = Flask(__name__)
database = {one.__name__.lower(): one for one in (MariaDb, PostgreSql, Sqlite, Ldap)}[os.environ["DATABASE"]]()
attempts = os.open(os.environ["ATTEMPTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def prepared():
    """The accounts of each column that this server has."""
    kept = {}
    for column in database.columns:
        try:
            kept[column] = database.prepare(column, ACCOUNTS)
        except Exception as failure:  # a collation of another version
            print(f"{column}: {failure}", flush=True)
    database.own = threading.local()  # no worker takes over a connection
    return kept


columns = prepared()


def reached(column, name):
    """The account."""
    number = database.find(column, name) if name.strip(b"\0") else None
    return None if number is None else ACCOUNTS[number]


@app.route("/columns")
def all_columns():
    """What there is, and how long a name may be."""
    return jsonify({one: {"accounts": kept, "length": LENGTHS.get(one)} for one, kept in columns.items()})


@app.route("/equal/<column>", methods=["POST"])
def equal(column):
    """Whom each name of a list reaches."""
    return jsonify([reached(column, bytes.fromhex(name)) for name in request.get_json()])


@app.route("/login/<column>", methods=["POST"])
def login(column):
    """Every password is wrong."""
    name = parse_qs(request.get_data().decode("latin-1"), encoding="latin-1").get("login", [""])[0].encode("latin-1")
    said = {"column": column, "account": reached(column, name), "user": name.hex()}
    os.write(attempts, (json.dumps(said) + "\n").encode())
    return "Login failed"
