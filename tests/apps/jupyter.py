"""Jupyter Server from PyPI: a form with one password for all, and no accounts."""

from contextlib import contextmanager

from environments import python
from person import PASSWORD
from processes import accepts, call, running, wait_until
from recording import Note

FORM = "/login"
HASH = "import sys; from jupyter_server.auth import passwd; print(passwd(sys.argv[1]))"


class Jupyter:
    """A running server."""

    title = "Jupyter Server"
    preset = "jupyter"
    place = "jupyter"
    wrong, right, proves, has_accounts = 401, 302, True, False

    @classmethod
    @contextmanager
    def start(cls, directory, address, _site):
        """The server with a password, for the length of the block."""
        hashed = call([python("jupyter"), "-c", HASH, PASSWORD], directory / "hash.log").strip()
        env = {f"JUPYTER_{place}_DIR": str(directory) for place in ("RUNTIME", "CONFIG", "DATA")}
        host, port = address
        settings = {"ip": host, "port": port, "open_browser": False, "root_dir": directory, "allow_remote_access": True}
        options = [f"--ServerApp.{key}={value}" for key, value in settings.items()]
        options += ["--allow-root", f"--PasswordIdentityProvider.hashed_password={hashed}"]
        command = [python("jupyter", "jupyter-server"), *options]
        with running("jupyter", command, directory / "jupyter.log", env) as server:
            wait_until(lambda: accepts(address), server)
            yield cls()

    @staticmethod
    def attempt(visitor, _user, password, note=None, path=FORM, **others):
        """The form as the page has it."""
        if "_xsrf" not in visitor.cookies:
            visitor.get(FORM)
        host, port = visitor.address
        visitor.keep(f"{host.replace('.', '-')}-{port}", "app-example")  # in the name of the cookie
        fields = {"_xsrf": visitor.keep(visitor.cookies["_xsrf"]), "password": password}
        return visitor.form(path, fields | others, note=note)

    def visits(self, visitor):
        """Sign-ins with the form's token and with others."""
        door = "jupyter"

        def attempt(name, expect, password, visitor=visitor, **others):
            return self.attempt(visitor, None, password, Note(name, expect, None, door, ""), **others)

        visitor.get(FORM, note=Note("form", "none", shows='name="password"'))
        attempt("wrong-password", "failure", "wrong")
        attempt("empty", "failure", "")
        attempt("wrong-token", "failure", PASSWORD, _xsrf="x" * 32)
        attempt("right-password", "success", PASSWORD)
        attempt("right-password-and-a-page", "success", PASSWORD, visitor.another(), path=f"{FORM}?next=%2Ftree")
        attempt("wrong-password-while-signed-in", "failure", "wrong")
        note = Note("password-in-the-address", "success", None, door, "")
        other = visitor.another()
        other.get(FORM)
        fields = {"_xsrf": other.keep(other.cookies["_xsrf"])}
        host, port = visitor.address
        other.keep(f"{host.replace('.', '-')}-{port}", "app-example")
        other.form(f"{FORM}?password={PASSWORD}", fields, note=note)
        visitor.get("/logout", note=Note("sign-out", "none", shows=""))
