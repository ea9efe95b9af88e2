"""How the tests of this directory say what is true."""


def check(what, fine, seen=""):
    """Says what was checked; ends the test if it is not so."""
    print(f"{'ok' if fine else 'FAILED'}   {what}" + ("" if fine else f": {seen!r}"), flush=True)
    if not fine:
        raise SystemExit(1)
