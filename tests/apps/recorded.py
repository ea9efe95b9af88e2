"""Whether applications still answer as tests/recorded says, which the presets are tested against.

Usage: python3 tests/apps/recorded.py [NAME...]     UPDATE=1 writes the recordings anew; read the difference.
"""

import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from pathlib import Path

from adminer import Adminer
from airflow import Airflow
from allauth_forms import Allauth
from cacti import Cacti
from calibre_web import CalibreWeb
from django_admin import DjangoAdmin
from dokuwiki import DokuWiki
from drupal import Drupal
from environments import fetched
from flask_security_forms import FlaskSecurity
from home_assistant import HomeAssistant
from icingaweb2 import IcingaWeb
from joomla import Joomla
from jupyter import Jupyter
from jupyterhub import JupyterHub
from kanboard import Kanboard
from lam import AccountManager
from mediawiki import MediaWiki
from moodle import Moodle
from node_red import NodeRed
from octoprint import OctoPrint
from pgadmin import PgAdmin
from phpldapadmin import PhpLdapAdmin
from phpmyadmin import PhpMyAdmin
from postfixadmin import PostfixAdmin
from processes import free_address, stop_all, url
from qbittorrent import QBittorrent
from recording import Visitor
from redmine import Redmine
from report import Report, Wrong
from roundcube import Roundcube
from roundup_tracker import Roundup
from shaarli import Shaarli
from simplesamlphp import SimpleSaml
from snappymail import SnappyMail
from synapse import Synapse
from tomcat import Tomcat
from tt_rss import TinyTinyRss
from wagtail import Wagtail
from webmin import Webmin
from wordpress import WordPress
from zabbix import Zabbix
from zoneminder import ZoneMinder

APPLICATIONS = [
    *(WordPress, PhpMyAdmin, Roundcube, MediaWiki, DjangoAdmin, Tomcat, Synapse),
    *(Jupyter, NodeRed, Allauth, FlaskSecurity, Adminer, DokuWiki, PhpLdapAdmin),
    *(IcingaWeb, Zabbix, Cacti, JupyterHub, OctoPrint, Wagtail, HomeAssistant),
    *(Airflow, PgAdmin, Webmin, SnappyMail, PostfixAdmin, TinyTinyRss, QBittorrent),
    *(SimpleSaml, Shaarli, Redmine, CalibreWeb, Kanboard, Joomla, Drupal, Moodle),
    *(AccountManager, Roundup, ZoneMinder),
]
RECORDED = Path(__file__).parent.parent / "recorded"


def main():
    """All applications, two at a time; what is wrong with one does not hide the others."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    wanted = sys.argv[1:]
    chosen = fetched(app for app in APPLICATIONS if not wanted or app.preset in wanted)
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(trial, chosen))
    print(f"{sum(results)} of {len(results)} applications as recorded, {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(results) else 1)


def interrupted(number, _):
    """Ends what runs; the trials then fail, clean up and return before the interpreter does."""
    stop_all()
    sys.exit(128 + number)


def trial(application):
    """One application from start to end; returns whether all was as recorded."""
    report, wrong, began = Report(f"{application.title} (recorded)"), None, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tollgate-recorded-", ignore_cleanup_errors=True) as directory:
        try:
            notes = visit(application, Path(directory))
            compare(RECORDED / application.preset, dict(notes), report)
        except Wrong as mismatch:
            wrong = mismatch
        except Exception as failure:  # whatever it is, the other trials go on
            wrong = f"{type(failure).__name__}: {failure}"
    report.note(f"{time.monotonic() - began:.0f} s")
    print(f"{report}\n  {f'WRONG: {wrong}' if wrong else 'as recorded'}\n", flush=True)
    return not wrong


def visit(application, directory):
    """Starts it and makes all the visits that it knows."""
    address, notes = free_address(), []
    with application.start(directory, address, url(address)) as app:
        app.visits(Visitor(address, notes))
    return notes


def compare(folder, notes, report):
    """Each visit beside its file, and no file without a visit."""
    if "UPDATE" in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.http"):
            file.unlink()
        for name, text in notes.items():
            (folder / f"{name}.http").write_text(text)
    files = {file.stem: file.read_text() for file in folder.glob("*.http")}
    differences = []
    for name in sorted(notes.keys() | files.keys()):
        old, new = (texts.get(name, "").splitlines() for texts in (files, notes))
        differences += unified_diff(old, new, f"recorded {name}", "answered now", lineterm="")
    if differences:
        raise Wrong("\n".join(["other answers than recorded:", *differences]))
    report.note(f"ok: {len(notes)} answers are as recorded")


if __name__ == "__main__":
    main()
