"""MediaWiki from Debian on PHP's own server, with SQLite.

A wrong password is answered 200, by the form and by the API, and so is a right one by the API. A right one is expected
to cost a token as well, because of `while-remembered-elsewhere`: a client with an account makes an answer like it.
"""

from contextlib import contextmanager
from pathlib import Path

from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from processes import accepts, call, running, wait_until
from recording import Note
from wordpress import SETTINGS

ROOT = Path("/usr/share/mediawiki")
FORM = "/index.php?title=Special:UserLogin"


class MediaWiki:
    """A running site."""

    title = "MediaWiki"
    preset = "mediawiki"

    @classmethod
    @contextmanager
    def start(cls, directory, address, site, more=""):
        """Tables, two accounts and the server, for the length of the block; `more` is for its settings."""
        php = ["php", *SETTINGS]
        install = [*php, str(ROOT / "maintenance/install.php"), "--dbtype=sqlite", f"--dbpath={directory}"]
        install += [f"--server={site}", "--scriptpath=", f"--confpath={directory}", f"--pass={PASSWORD}"]
        call([*install, "--dbname=wiki", "Behind the gate", USER], directory / "install.log")
        settings = directory / "LocalSettings.php"
        extra = "$wgPasswordAttemptThrottle = [];\n$wgMainCacheType = CACHE_NONE;\n$wgCookiePrefix = 'wiki';\n"
        settings.write_text(settings.read_text() + extra + more)
        env = {"MW_CONFIG_FILE": str(settings), "PHP_CLI_SERVER_WORKERS": "4"}
        other = [*php, str(ROOT / "maintenance/createAndPromote.php"), OTHER, OTHERS_PASSWORD]
        call(other, directory / "other.log", env)
        command = [*php, "-S", "%s:%d" % address, "-t", str(ROOT)]
        with running("php -S", command, directory / "php.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def visits(visitor):
        """Sign-ins by the form and by both ways of the API."""

        def attempt(note, user, password, visitor=visitor, path=FORM, **others):
            token = visitor.keep(visitor.get(FORM).find('name="wpLoginToken" type="hidden" value="([^"]+)"'))
            fields = {"wpName": user, "wpPassword": password, "wploginattempt": "Log in", "wpEditToken": "+\\"}
            fields |= {"title": "Special:UserLogin", "authAction": "login", "force": "", "wpLoginToken": token}
            return visitor.form(path, fields | others, note=note)

        visitor.get(FORM, note=Note("form", "none", shows="wpPassword"))
        door, wrong = "mediawiki", "Incorrect username or password"
        attempt(Note("wrong-password", "failure", USER, door, wrong), USER, "wrong")
        attempt(Note("unknown-account", "failure", "nobody", door, wrong), "nobody", "wrong")
        attempt(Note("empty", "failure", "", door), "", "")
        attempt(Note("wrong-token", "failure", USER, door), USER, PASSWORD, wpLoginToken="x" * 40)
        attempt(Note("right-password", "failure", USER, door), USER, PASSWORD)
        remembered = visitor.another()
        attempt(Note("right-password-remembered", "failure", USER, door), USER, PASSWORD, remembered, wpRemember="1")
        elsewhere = visitor.another()
        attempt(Note("right-password-elsewhere", "failure", USER, door), USER, PASSWORD, elsewhere, "/index.php")
        for name, spelling in {"blanks": f" {USER} ", "underscores": f"_{USER}_"}.items():
            note = Note(f"spelling-{name}", "failure", spelling.strip(), door, spelling_of=USER)
            attempt(note, spelling, PASSWORD, visitor.another())
        attacker = visitor.another()
        attempt(None, OTHER, OTHERS_PASSWORD, attacker)
        attempt(Note("wrong-password-while-signed-in", "failure", USER, door, wrong), USER, "wrong", attacker)
        attempt(None, OTHER, OTHERS_PASSWORD, remembered := visitor.another(), wpRemember="1")
        remembered.cookies.pop("wiki_session")
        note = Note("wrong-password-while-remembered", "failure", USER, door)
        remembered.form(FORM, {"wpName": USER, "wpPassword": "wrong"}, note=note)
        attempt(None, OTHER, OTHERS_PASSWORD, remembered := visitor.another(), wpRemember="1")
        remembered.cookies.pop("wiki_session")
        note = Note("wrong-password-while-remembered-elsewhere", "failure", USER, door)
        remembered.form("/index.php?title=Special:Random", {"wpName": USER, "wpPassword": "wrong"}, note=note)
        MediaWiki.api(visitor.another())
        page = visitor.get("/index.php?title=Special:UserLogout")
        token = visitor.keep(page.find('value="([^"]+)" name="wpEditToken"'))
        visitor.form("/index.php?title=Special:UserLogout", {"wpEditToken": token}, note=Note("sign-out", "none"))

    @staticmethod
    def api(visitor):
        """The older way, which anybody may use with the password of the account, and today's."""

        def token(visitor):
            answer = visitor.get("/api.php?action=query&meta=tokens&type=login&format=json")
            return visitor.keep(answer.json("query", "tokens", "logintoken"))

        def old(note, password, visitor):
            fields = {"action": "login", "lgname": USER, "lgpassword": password, "format": "json"}
            visitor.form("/api.php", fields | {"lgtoken": token(visitor)}, note=note)

        def client(note, password, visitor, **others):
            fields = {"action": "clientlogin", "username": USER, "password": password, "format": "json"}
            fields |= {"loginreturnurl": "http://app.example/", "logintoken": token(visitor)}
            visitor.form("/api.php", fields | others, note=note)

        door = "mediawiki"
        old(Note("api-login-wrong", "failure", USER, door), "wrong", visitor.another())
        old(Note("api-login-right", "failure", USER, door), PASSWORD, visitor.another())
        client(Note("api-clientlogin-wrong", "failure", USER, door), "wrong", visitor.another())
        client(Note("api-clientlogin-right", "failure", USER, door), PASSWORD, visitor.another())
        client(Note("api-clientlogin-token", "failure", USER, door), PASSWORD, visitor.another(), logintoken="x")
