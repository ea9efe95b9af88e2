"""The page of messages, of the source and of the golden files in tests/config."""

import re
import sys

from reference.page import HEAD, ROOT, prose

# What to do about an error or a warning of the log.
ADVICE = {
    "a body was not read to its end: proxy.body_memory is used up":
        "Raise `proxy.body_memory`, or look for a client that sends many long bodies.",
    "a caller of the admin API sent a wrong token": "Look at `from`: a script with an old token, or a stranger.",
    "a change is refused: the audit log cannot be written: …":
        "Fix what the error names, mostly rights or a full disk. Until then operators change nothing.",
    "a connection could not be accepted": "`error` names the reason; mostly file descriptors are short (`LimitNOFILE=`).",
    "a connection was rejected":
        "`reason` names the bound, such as `proxy.client_max`. Raise it for a client that you know; otherwise do nothing.",
    "a guess may have worked: a stranger signed in after many failures":
        "Find `account` in the decision log, and ask its owner ([the guess that worked](../attacks.md#the-guess-that-worked)).",
    "a change is not in the audit log, which cannot be written: …":
        "Fix what the error names. The change was made by the store's policy, a signal, a changed file or DNS.",
    "a task panicked, its connection is gone: please report this": "Report it. Other connections go on.",
    "a temporary exemption, ban or mode cannot end yet: …": "Fix what the error names; the gate tries again.",
    "a webhook was not called: too many others wait for an answer": "Check the server of the webhook.",
    "a webhook was not reached": "Nothing yet: the gate tries again.",
    "a webhook was not reached: its report is lost": "Check the server of the webhook; `tollgate status` shows the mode.",
    "all buckets begin full: … cannot be read: …": "Give the gate's user the right to read `store.snapshot`.",
    "all buckets begin full: …: …; …": "Nothing: the damaged file is set aside. Look at the disk if it happens again.",
    "all upstreams of a group fail their health checks (…): requests go to them as if nothing were checked":
        "Check the applications, or `health`: does its page exist?",
    "an idle connection was closed to make room for another client":
        "Raise `proxy.connections`, or look who holds many connections (`tollgate status`).",
    "an upstream failed a request": "`reason` says how; check the application.",
    "an upstream is skipped until it answers again": "Check the application. The gate tries it again by itself.",
    "attack mode begins: strangers' attempts cost more": "Nothing, or read `tollgate buckets list --refused`.",
    "cannot listen for signal …: …": "Restart the gate; this signal does nothing until then.",
    "cannot notify the service manager: …": "Look at NOTIFY_SOCKET and the unit; the gate goes on.",
    "changes that operators made at other gates are not made here: …":
        "Lower `store.capacity`, or give the gate more memory.",
    "no new certificate for …: …; …, and the next try is …":
        "Fix what it names: mostly DNS, or a port that does not lead to the gate. The present certificate stays in use.",
    "memory is short: no more than … connections": "Give the machine or the control group more memory.",
    "memory of closed connections may stay with this process: …": "Nothing: the process may look larger than it is.",
    "mode = \"observe\": no limit refuses anything": "Write `mode = \"enforce\"` when the limits fit.",
    "no other process has taken over, this one goes on: …":
        "Fix what the error names (`tollgate check`), then send SIGUSR2 again.",
    "policy … of … is refused, the old one stays: …":
        "Fix the policy and push it again; or fix what it needs on this machine, and `tollgate reload`.",
    "rotated logs stay, log.retention notwithstanding: …": "Give the gate's user the right to write in that directory.",
    "sandbox: not in force: …: …": "Nothing, or a newer kernel: the gate runs without this part.",
    "store.snapshot cannot be written to …: …": "Give the gate's user the right to write in that directory.",
    "store still unavailable": "It lasts: `why` has what the store answered last.",
    "store unavailable: store.on_error decides attempts until it answers":
        "Check the store; `why` has the reason ([stores](../stores.md#while-the-store-is-unavailable)).",
    "store: …": "A finding about how the store is set up, and how to fix it ([stores](../stores.md)).",
    "the store refuses some attempts: store.on_error decides them":
        "`why` has the reason: the store answers the gate's probes, and not all attempts ([stores](../stores.md#while-the-store-is-unavailable)).",
    "the kernel drops no new clients: the gate refuses them, and tries again":
        "`why` has what the kernel said. Clients lose nothing: the gate refuses them itself.",
    "the kernel has no IPv6: … becomes …": "Nothing, or write `0.0.0.0` for `[::]`.",
    "the record … was not removed: …": "Fix what `tls.acme.dns_hook` runs, and remove the record by hand.",
    "the buckets of limit `…` are reset, all full: …": "Nothing: the limit or `store.capacity` has changed since.",
    "[lists]: `…` was not fetched (…): it stays as it is": "Correct `url`, `format` or `key`; the gate tries again by itself.",
    "[networks]: … has … addresses, and only … count": "Write the prefixes of a service that has many.",
    "[networks]: … has had no answer for client.dns_keep (…): its addresses are dropped": "Correct the name or the resolver.",
    "[networks]: … has no answer (…): … earlier addresses are kept": "Correct it within `client.dns_keep`.",
    "the audit log cannot be opened again, the old file stays: …": "Fix what the error names, then send SIGUSR1 again.",
    "the audit log is not followed by the store: …":
        "Fix what the error names. Lines follow from the file as soon as that is possible.",
    "the store has … as the last line of the audit log …, and the file has it no more":
        "Find who cut or replaced the file, or two machines with one name. `tollgate audit verify --fleet` shows what is missing.",
    "the audit log was changed by others: the last line of this gate, …, is not in its place":
        "Find who may write the file; `tollgate audit verify` shows the line.",
    "the audit log … was replaced by another file": "Find who may write in its directory; `tollgate audit verify` shows the line.",
    "the last line of the audit log … has no end: a gate ended while it wrote":
        "Nothing: the next line says so. The change may not have been made.",
    "what became of a change is not in the audit log, which cannot be written: …": "Fix what the error names.",
    "the certificate … …": "Renew it; the gate rereads its file. If the gate orders it itself, an error before this one has the reason.",
    "the upstream … fails its health check: …: requests go to others of its group until it passes":
        "Check the application; the message names the reason.",
    "the upstream … cannot be reached: …: until it can, its requests are answered 502":
        "Start the application, or correct `upstream`. The gate goes on, and tries again by itself.",
    "the clients that the kernel drops are let go, it does not list them: …":
        "Nothing: the gate refuses them itself, and those that go on are dropped again.",
    "the collector of otel.endpoint took no export: …": "Check the collector. No request waits for it.",
    "the new configuration is refused, the old one stays": "The messages before it name each mistake; fix them, then reload.",
    "the store (…) has lost the policy and the temporary changes of operators: this gate goes on as it is, and writes back what it knows":
        "Nothing, if you emptied it or it keeps nothing over a restart; else check its persistence.",
    "the policy cannot be kept in …: …: without the store this gate cannot start":
        "Let the gate's user write there: see [one policy for all gates](../policy.md#when-something-is-wrong).",
    "the store (…) cannot be used: …: until it can, … (store.on_error)":
        "`tollgate check --probe` shows the same on a terminal. Check the store.",
    "the store (…) …: this gate goes on as it is":
        "Fix what the message names: see [one policy for all gates](../policy.md#when-something-is-wrong).",
    "the … cannot be opened again, the old file stays: …": "Look at the directory's permissions, then send SIGUSR1 again.",
    "the … cannot be written": "Look at the disk; `lines` were lost.",
    "the … cannot keep up, lines were dropped": "Look at the disk, or at the reader of standard output.",
    "tls.acme.on_demand: no certificate is ordered for …, because its rate is used up":
        "Nothing, if strangers ask for names; else raise `tls.acme.on_demand.rate`.",
    "there is no monotonic clock: …": "Nothing: systemd is not told when a reload began.",
    "without capabilities … cannot be read again: …":
        "Let the gate's user read that file, else a change of it is not taken over.",
    "upstream: … has no answer (…): its last addresses are used": "Correct the name or the resolver.",
    "…, and restarts in …: please report this": "Report it. The background task begins again by itself.",
    "…: it has served no client for …": "Report it. `/readyz` answers 503 meanwhile; systemd restarts the gate.",
}

def render():
    out = ["# Messages\n", HEAD,
           "`…` stands for what a message says of one case.\n",
           "## Of the log\n", *log_messages(), "## Of check\n", *check_messages(), "## Answers\n", *answers()]
    return "\n".join(out).rstrip() + "\n"


def log_messages():
    found = {}
    files = [*(ROOT / "src").rglob("*.rs"), *(ROOT / "crates").glob("*/src/**/*.rs")]
    for path in sorted(files):
        if "tests" in path.parts or path.stem == "tests":
            continue
        text = path.read_text().split("\n#[cfg(test)]\nmod tests {")[0]
        for at in re.finditer(r"(?<!\w)(?:tracing::)?(error|warn)!\(", text):
            line = text[text.rfind("\n", 0, at.start()) + 1:at.start()].strip()
            words = literal(text, at.end())
            # A message that is nothing but a text made elsewhere is that text's.
            if not line.startswith("//") and words and words.strip("…"):
                level = {"error": "error", "warn": "warning"}[at[1]]
                found.setdefault(level, set()).add(words)
        # What an alarm says where it begins.
        if "defences" in path.parts:
            found.setdefault("warning", set()).update(re.findall(r'\bbegins: "([^"]+)",', text))
    unknown = (found["error"] | found["warning"]) - ADVICE.keys()
    stale = ADVICE.keys() - (found["error"] | found["warning"])
    if unknown or stale:
        sys.exit(f"ADVICE in scripts/lib/reference/messages.py has none for {sorted(unknown)}, and has what is not there: {sorted(stale)}")
    out = []
    for level in ["error", "warning"]:
        out += [f"### {level.title()}s, and what to do\n"]
        out += [f"- **{prose(words)}**: {ADVICE[words]}" for words in sorted(found[level])] + [""]
    out += ["A warning about [wrong wiring](../attacks.md#wrong-wiring) tells how to fix it. An info needs nothing done.\n"]
    return out


def literal(text, at):
    """The first string behind the opening bracket of a macro, with `…` for what is put in; None if there is none."""
    depth, out = 0, None
    while out is None:
        if text[at] in ")]}" and depth == 0:
            return None
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == '"':
            out = re.match(r'"((?:[^"\\]|\\.)*)"', text[at:], re.S)[1]
        at += 1
    out = re.sub(r"\\\n\s*", "", out).replace('\\"', '"')
    return re.sub(r"\{[^{}]*\}", "…", out)


def check_messages():
    """An example of each warning that has a remedy under its caret."""
    found = {}
    for path in sorted((ROOT / "tests/config").glob("*.txt")):
        lines = path.read_text().replace("tests/config/", "").splitlines()
        for at, line in enumerate(lines):
            if line.startswith("warning: "):
                words = line.removeprefix("warning: ")
                remedy = hint(lines[at + 1:at + 6])
                if remedy and not remedy.startswith("as in "):
                    found.setdefault(without_names(words), words)
    return ["`tollgate check` shows each mistake with its place in the file, and below it what would be right. It warns of what is legal and "
            "surely wrong; names and values are examples here:\n",
            *(f"- {example(words)}" for words in sorted(found.values())), ""]


def without_names(words):
    """The same for messages that differ in names and values only."""
    for values in [r"`[^`]*`", r'"[^"]*"', r"(?<![\w./:-])(?:-?\d|::)[\w.:/-]*"]:
        words = re.sub(values, "…", words)
    return re.sub(r"\b(limit|route|network|endpoint) …", "… …", words)


def hint(lines):
    for line in lines:
        caret = re.match(r"\s*\|\s*\^+\s?(.*)", line)
        if caret:
            return caret[1]
        if not line.strip():
            return ""
    return ""


def answers():
    text = (ROOT / "crates/gate/src/proxy/respond/problem.rs").read_text()
    status = dict(re.findall(r"Self::(\w+)(?: \{ \.\. \})? => StatusCode::(\w+)", text))
    details = re.search(r"fn detail\(.*?\n    \}\n", text, re.S)[0]
    detail = dict(re.findall(r'Self::(\w+)(?: \{ \.\. \})? => \{?\s*"([^"]+)"', details))
    names = {kind_of: code for code, kind_of in re.findall(r"/// (\d{3}): [^\n]*\n    (\w+)", text)}
    refused = re.search(r'kind: "([^"]+)",\s*title: "([^"]+)"', (ROOT / "crates/gate/src/proxy/respond.rs").read_text())
    rows = [(names[kind_of], detail[kind_of]) for kind_of in status]
    numbers = {code: names[kind_of] for kind_of, code in status.items()}
    for path in (ROOT / "crates/gate/src/defences").rglob("*.rs"):
        of_defence = r'status: StatusCode::(\w+),\s*why: "[^"]+",\s*detail: "([^"]+)"'
        rows += [(numbers[code], text) for code, text in re.findall(of_defence, path.read_text())]
    rows.append(("429", "Wait … seconds, then try again."))
    return [f"HTML, problem details (RFC 9457) or text, by `Accept`. A refusal has the type {refused[1]} and the title "
            f"\"{refused[2]}\", others have about:blank and the usual name of the status. [Answers](../answers.md) tells when each is sent.\n",
            *(f"- {status}: {text}" for status, text in sorted(rows))]


def example(text):
    """Code as HTML: backticks in documents are for names that exist, and most of these do not."""
    pieces = re.sub(r"([*_<\[|])", r"\\\1", text).split("`")
    return "".join(f"<code>{piece}</code>" if at % 2 else piece for at, piece in enumerate(pieces))
