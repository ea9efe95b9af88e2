"""Three mails an hour to one recipient, wherever they are asked for: a real WordPress behind what `tollgate init` writes.

Usage: python3 tests/apps/mails.py [TOLLGATE]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from browser import Browser
from person import OTHER, USER
from processes import accepts, free_address, running, stop_all, url, wait_until
from report import Report, Wrong
from wordpress import FORM, WordPress


def main():
    binary = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/tollgate").absolute()
    began, report = time.monotonic(), Report("mails")
    try:
        with tempfile.TemporaryDirectory(prefix="tollgate-mails-", ignore_cleanup_errors=True) as directory:
            ask_for_mails(Path(directory), binary, report)
    except Wrong as mismatch:
        sys.exit(f"{report}\nmails: WRONG: {mismatch}")
    finally:
        stop_all()
    print(f"{report}\nmails: as promised, {time.monotonic() - began:.0f} s")


def ask_for_mails(directory, binary, report):
    inside, outside = free_address(), free_address()
    file, mailbox = directory / "tollgate.toml", directory / "mailbox"
    init = [binary, "init", file, "--preset", "wordpress", "--listen", url(outside), "--upstream", url(inside)]
    subprocess.run(init, check=True, capture_output=True)
    with (
        WordPress.start(directory, inside, url(outside), mailbox),
        running("tollgate", [binary, "run", "-c", file], directory / "gate.log") as gate,
    ):
        wait_until(lambda: accepts(outside), gate)

        def statuses(recipient, first):
            return [lost_password(outside, f"127.7.0.{first + number}", recipient) for number in range(6)]

        report.equal("six requests for one account, each from another address", statuses(USER, 1), [200] * 3 + [429] * 3)
        report.equal("mails that WordPress sent", mails(mailbox), 3)
        report.equal("other spellings of the name", lost_password(outside, "127.7.0.9", f" {USER.upper()} "), 429)
        report.equal("the same for another account", statuses(OTHER, 11), [200] * 3 + [429] * 3)
        report.equal("mails that WordPress sent", mails(mailbox), 6)


def lost_password(site, source, recipient):
    """The status in the end: WordPress redirects to a page that says where the mail went."""
    fields = {"user_login": recipient, "redirect_to": "", "wp-submit": "Get New Password"}
    return Browser(url(site), source).post(f"{FORM}?action=lostpassword", fields).status


def mails(mailbox):
    return len(re.findall(r"^To: ", mailbox.read_text(errors="replace"), re.M))


if __name__ == "__main__":
    main()
