//! `tollgate(8)`: the gate as a service: signals, exit codes, environment, files.

use clap_mangen::roff::{Roff, bold, roman};

use super::{entry, titled};

pub(super) fn page() -> Roff {
    let mut page = titled("tollgate", "8", "a reverse proxy that guards sign-in forms, as a service");
    for (title, about, entries) in SECTIONS {
        page.control("SH", [*title]);
        if !about.is_empty() {
            page.text([roman(*about)]);
        }
        for (term, meaning) in *entries {
            entry(&mut page, vec![bold(*term)], meaning);
        }
    }
    page
}

/// A title, a paragraph, and entries.
type Section = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SECTIONS: &[Section] = &[
    (
        "DESCRIPTION",
        "The gate runs in the foreground (tollgate run) and tells systemd when it is ready, reloads and stops. Messages go \
         to standard error, the access log to standard output unless log.access names a file.",
        &[],
    ),
    (
        "SIGNALS",
        "",
        &[
            (
                "SIGHUP",
                "reads the file again: all of it, or nothing if it has a mistake. Buckets and connections stay.",
            ),
            ("SIGUSR1", "opens the logs again, after logrotate(8)."),
            (
                "SIGUSR2",
                "starts the binary again with the same sockets and buckets; then this process drains.",
            ),
            (
                "SIGTERM, SIGINT",
                "drain: requests in flight finish within proxy.drain. A second one stops now.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        "",
        &[
            ("0", "ended as told."),
            ("1", "failed: an address, a file or the store cannot be used."),
            ("2", "wrong arguments."),
            ("78", "bad configuration: a restart does not help."),
        ],
    ),
    (
        "ENVIRONMENT",
        "",
        &[
            ("TOLLGATE_CONFIG", "the file, if -c does not name one."),
            ("TOLLGATE_TABLE__KEY", "sets a key over the file."),
            ("NO_COLOR", "no colours on a terminal."),
            (
                "CREDENTIALS_DIRECTORY, LOGS_DIRECTORY, STATE_DIRECTORY",
                "set by systemd: relative names of keys, logs and the snapshot are looked for there first.",
            ),
        ],
    ),
    (
        "FILES",
        "",
        &[
            ("/etc/tollgate/config.toml", "the configuration, tollgate.toml(5)."),
            ("/run/tollgate/admin.sock", "the operators' socket, if admin.listen names it."),
            ("/var/log/tollgate, /var/lib/tollgate", "logs and the snapshot under systemd."),
        ],
    ),
    ("SEE ALSO", "tollgate(1), tollgate-doctor(1), tollgate.toml(5)", &[]),
];
