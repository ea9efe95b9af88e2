"""Tells the gate what came of a sign-in: "success", "failure" or "neutral". Call it once, after the password was checked."""
import contextlib, json, os, urllib.request


def outcome(headers, outcome, user=None):
    receipt = headers.get("X-Tollgate-Receipt")
    if not receipt:
        return
    report = {"receipt": receipt, "outcome": outcome} | ({"user": user} if user is not None else {})
    gate = os.environ.get("TOLLGATE", "http://127.0.0.1:9181") + "/outcome"
    request = urllib.request.Request(gate, json.dumps(report).encode(), {"Content-Type": "application/json"})
    with contextlib.suppress(OSError):
        urllib.request.urlopen(request, timeout=1).close()
