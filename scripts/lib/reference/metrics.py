"""The page of metrics, of their names and help texts in the source, and of the rules of contrib/prometheus."""

import re
import sys

from reference.page import HEAD, ROOT

# The labels of each metric, by its name in a scrape.
LABELS = {
    "process_cpu_seconds_total": "",
    "process_max_fds": "",
    "process_open_fds": "",
    "process_resident_memory_bytes": "",
    "process_start_time_seconds": "",
    "process_threads": "",
    "process_virtual_memory_bytes": "",
    "tollgate_access_log_dropped_total": "",
    "tollgate_added_seconds": "",
    "tollgate_answer_bytes_total": "limit result",
    "tollgate_attack_mode": "route",
    "tollgate_attempts_total": "route outcome",
    "tollgate_bad_signatures_total": "",
    "tollgate_bodies_refused_total": "",
    "tollgate_buckets": "limit",
    "tollgate_buckets_forgotten_total": "limit",
    "tollgate_build_info": "version",
    "tollgate_certificate_expiry_seconds": "name",
    "tollgate_challenges_total": "result",
    "tollgate_config_reloads_total": "result",
    "tollgate_connections": "",
    "tollgate_connections_evicted_total": "",
    "tollgate_connections_refused_total": "reason",
    "tollgate_decision_log_dropped_total": "",
    "tollgate_decisions_total": "route limit decision",
    "tollgate_exposed_passwords_total": "route",
    "tollgate_guesses_worked_total": "route",
    "tollgate_in_flight": "route",
    "tollgate_in_flight_limit": "route",
    "tollgate_in_flight_refused_total": "route",
    "tollgate_in_flight_waiting": "route",
    "tollgate_kernel_elements": "",
    "tollgate_kernel_elements_added_total": "",
    "tollgate_kernel_failures_total": "",
    "tollgate_lease_answers_total": "limit",
    "tollgate_log_records_dropped_total": "",
    "tollgate_mirror_answers_total": "limit",
    "tollgate_panics_total": "",
    "tollgate_policy_refused": "",
    "tollgate_policy_version": "",
    "tollgate_request_duration_seconds": "",
    "tollgate_requests_total": "code",
    "tollgate_spans_dropped_total": "",
    "tollgate_store_fallbacks_total": "action",
    "tollgate_store_races_lost_total": "limit",
    "tollgate_store_request_duration_seconds": "",
    "tollgate_store_requests_total": "result",
    "tollgate_store_server_up": "server",
    "tollgate_store_up": "",
    "tollgate_upstream_checks_total": "upstream result",
    "tollgate_upstream_errors_total": "upstream reason",
    "tollgate_upstream_up": "upstream",
}


def render():
    found = defined_metrics()
    plain = {name.removesuffix("_total"): name for name in LABELS}
    missing = [name for name in found if name not in plain]
    gone = [name for name in plain if name not in found]
    if missing or gone:
        sys.exit(f"LABELS in scripts/lib/reference/metrics.py lacks {missing}, and has what is not there: {gone}")
    out = ["# Every metric\n", HEAD,
           "A counter ends in `_total`. More of each: [logs and metrics](../logs-and-metrics.md#metrics), "
           "[stores](../stores.md#metrics-and-messages). No address, account or path is ever a label.\n",
           "What each counts, its labels, and the alert that watches it:\n"]
    for name, help_text in sorted(found.items()):
        labels = ",".join(LABELS[plain[name]].split())
        shown = f"{plain[name]}{{{labels}}}" if labels else plain[name]
        watched = f" ({', '.join(alerts(name))})" if alerts(name) else ""
        out.append(f"- `{shown}`: {help_text.rstrip('.')}{watched}")
    return "\n".join(out) + "\n"


def defined_metrics():
    """Name and help text of each metric in the source."""
    found = {}
    files = [ROOT / "crates/operate/src/observe/metrics.rs", *sorted((ROOT / "crates/operate/src/observe/metrics").glob("*.rs"))]
    for path in [*files, *sorted((ROOT / "crates/gate/src/defences").rglob("*.rs"))]:
        if path.stem == "tests":
            continue
        text = path.read_text().split("#[cfg(test)]")[0]
        # The help stands behind the name, or in a `let` before it.
        for at in re.finditer(r'"((?:tollgate|process)_[a-z_]+)"', text):
            behind = re.match(r'[\s,;]*(?:let help =|help:)?\s*"([^"]+)"', text[at.end():])
            before = re.findall(r'let help = "([^"]+)"', text[:at.start()])
            # The name of a cookie has no help.
            if behind or before:
                found[at[1]] = behind[1] if behind else before[-1]
    return found


def alerts(name):
    text = (ROOT / "contrib/prometheus/alerts.yml").read_text()
    rules = text.split("- alert: ")[1:]
    return [rule.split()[0] for rule in rules if re.search(rf"\b{name}(_total|_bucket|_count)?\b", rule.split("annotations:")[0])]
