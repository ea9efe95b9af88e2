"""What is recorded of WordPress: the form, what else its page does, application passwords and XML-RPC."""

import html
from base64 import b64encode
from urllib.parse import urlencode

from person import OTHER, OTHERS_PASSWORD, PASSWORD, USER
from recording import Note

FORM = "/wp-login.php"
ME = "/wp/v2/users/me"
# All of them are the same account.
SPELLINGS = {
    "blanks": f" {USER} ",
    "capitals": USER.upper(),
    "tags": f"<b>{USER}",
    "octets": f"{USER}%00",
    "entities": f"{USER}&x;",
    "accents": USER.replace("a", "\u00e4", 1),
}


def all_doors(visitor, token):
    """The form, the API and XML-RPC; `token` is an application password."""
    form(visitor)
    other_forms(visitor)
    api(visitor.another(), token)
    xmlrpc(visitor.another())
    leave = html.unescape(visitor.get("/wp-admin/").find(r"(/wp-login.php\?action=logout[^\"\']+)"))
    visitor.keep(leave.split("=")[-1])
    visitor.get(leave, note=Note("sign-out", "none"))


def attempt(note, user, password, visitor, **others):
    """The form, as the page has it."""
    visitor.get(FORM)
    fields = {"log": user, "pwd": password, "wp-submit": "Log In", "redirect_to": "/wp-admin/", "testcookie": "1"}
    return visitor.form(FORM, fields | others, note=note)


def form(visitor):
    """Ends signed in."""
    visitor.get(FORM, note=Note("form", "none", shows="user_pass"))
    door, wrong = "wordpress", "is incorrect"
    attempt(Note("wrong-password", "failure", USER, door, wrong), USER, "wrong", visitor)
    attempt(Note("unknown-account", "failure", "nobody", door, "is not registered"), "nobody", "wrong", visitor)
    attempt(Note("empty", "failure", "", door), "", "", visitor)
    # Only the way of a wrong password leads to where an array is no text.
    broken = {"redirect_to[]": "x"}
    attempt(Note("wrong-password-breaks-the-page", "failure", USER, door), USER, "wrong", visitor.another(), **broken)
    attempt(Note("right-password-breaks-nothing", "success", USER, door), USER, PASSWORD, visitor.another(), **broken)
    note = Note("without-cookies", "failure", USER, door, "Cookies are blocked")
    visitor.another().form(FORM, {"log": USER, "pwd": PASSWORD, "testcookie": "1"}, note=note)
    attempt(Note("right-password", "success", USER, door), USER, PASSWORD, visitor)
    remembered = Note("right-password-remembered", "success", USER, door)
    attempt(remembered, USER, PASSWORD, visitor.another(), rememberme="forever")
    for name, spelling in SPELLINGS.items():
        note = Note(f"spelling-{name}", "success", spelling.strip(), door, spelling_of=USER)
        attempt(note, spelling, PASSWORD, visitor.another())
    attacker = visitor.another()
    attempt(None, OTHER, OTHERS_PASSWORD, attacker)
    attempt(Note("wrong-password-while-signed-in", "failure", USER, door, wrong), USER, "wrong", attacker)


def other_forms(visitor):
    """The same page takes passwords of posts and sends lost passwords; a name beside them proves nothing."""
    note = Note("password-of-a-post", "failure", USER, "wordpress")
    visitor.another().form(f"{FORM}?action=postpass", {"post_password": "x", "log": USER}, note=note)
    note = Note("lost-password", "failure", USER, "wordpress-mail wordpress")
    visitor.another().form(f"{FORM}?action=lostpassword", {"user_login": USER, "log": USER}, note=note)


def api(visitor, token):
    """The route may stand in the path, in the query and in the body, where a wrong password is not even refused."""
    visitor.keep(token)
    visitor.keep(credentials(token), credentials("made-up"))
    door = "wordpress-api"
    for name, password, expect in (("right", token, "neutral"), ("wrong", "wrong", "failure")):
        paths = {"path": f"/wp-json{ME}/", "index": f"/index.php/wp-json{ME}/", "query": f"/?rest_route={ME}"}
        for place, path in paths.items():
            visitor.basic(path, USER, password, note=Note(f"api-{place}-{name}", expect, USER, door))
        headers = {"Authorization": f"Basic {credentials(password)}"}
        kind, body = "application/x-www-form-urlencoded", urlencode({"rest_route": ME})
        visitor.ask("POST", "/", body, kind, headers, Note(f"api-body-{name}", "neutral", USER, door))
    visitor.basic("/", USER, "wrong", note=Note("api-elsewhere-wrong", "neutral", USER, door))


def credentials(password):
    """What stands in the header."""
    return b64encode(f"{USER}:{password}".encode()).decode()


def xmlrpc(visitor):
    """One call and many; what comes of them is only seen in a body, which may be long."""
    door = "wordpress-xmlrpc"
    for name, password in (("wrong", "wrong"), ("right", PASSWORD)):
        call = CALL.format("wp.getUsersBlogs", PARAM.format(value(USER)) + PARAM.format(value(password)))
        visitor.ask("POST", "/xmlrpc.php", call, "text/xml", note=Note(f"xmlrpc-{name}", "failure", None, door))
    member = MEMBER.format("methodName", value("wp.getUsersBlogs")) + MEMBER.format(
        "params", ARRAY.format(value(USER) + value("wrong"))
    )
    call = CALL.format("system.multicall", PARAM.format(ARRAY.format(f"<value><struct>{member}</struct></value>" * 3)))
    visitor.ask("POST", "/xmlrpc.php", call, "text/xml", note=Note("xmlrpc-multicall", "failure", None, door))


def value(text):
    """A string of XML-RPC."""
    return f"<value><string>{text}</string></value>"


CALL = "<methodCall><methodName>{}</methodName><params>{}</params></methodCall>"
PARAM = "<param>{}</param>"
ARRAY = "<value><array><data>{}</data></array></value>"
MEMBER = "<member><name>{}</name>{}</member>"
