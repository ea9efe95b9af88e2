//! The checked settings of logs and exports: `[log]`, `[otel]`.

use std::fmt;
use std::path::PathBuf;

use crate::time::Span;

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSettings {
    /// The least severe messages that are written.
    pub level: LogLevel,
    /// The format of messages.
    pub format: LogFormat,
    /// The target of the access log; `None` writes none.
    pub access: Option<LogTarget>,
    /// Where decisions are written.
    pub decisions: DecisionLog,
    /// How a line about a decision is written.
    pub schema: DecisionSchema,
    /// The style of lines in the access log.
    pub style: AccessLogStyle,
    /// How addresses are written.
    pub clients: ClientsShown,
    /// How long rotated files of logs stay; `None` leaves them to others.
    pub retention: Option<Span>,
}

/// `[otel]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtelSettings {
    /// The collector's name, or its address without brackets.
    pub host: String,
    /// The collector's port.
    pub port: u16,
    /// The share of requests without a `traceparent` whose spans are exported, in millionths; at most a million.
    pub sample_ppm: u32,
    /// Whether decisions are exported as log records.
    pub logs: bool,
}

/// Severity of the program's own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The format of the program's own messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Text.
    Text,
    /// A JSON object per line.
    Json,
}

/// The target of a log of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// `"-"`.
    StandardOutput,
    /// A file, appended to, reopened on SIGUSR1.
    File(PathBuf),
    /// `"syslog:"`: a datagram for each line. Its format writes the header.
    Syslog(SyslogAddress),
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardOutput => write!(f, "standard output"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Syslog(_) => write!(f, "syslog"),
        }
    }
}

/// Where a syslog server receives datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogAddress {
    /// A Unix datagram socket.
    Unix(PathBuf),
    /// UDP (RFC 5426). The name is resolved whenever the log connects.
    Udp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
}

/// Where decisions are written: `log.decisions`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DecisionLog {
    /// The first and the last refusal of a client by a limit, among the messages.
    #[default]
    Summary,
    /// Every decision, as a line of JSON.
    Every(LogTarget),
    /// Nowhere.
    Off,
}

/// How a line about a decision is written: `log.schema`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecisionSchema {
    /// The gate's own form.
    #[default]
    Tollgate,
    /// The Open Cybersecurity Schema Framework.
    Ocsf,
    /// The Elastic Common Schema.
    Ecs,
}

/// The style of lines in the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessLogStyle {
    /// The combined format of Apache and nginx.
    #[default]
    Combined,
    /// A JSON object per line.
    Json,
}

/// How addresses are written to logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientsShown {
    /// The whole address.
    #[default]
    Full,
    /// The prefix that shares a bucket.
    Prefix,
    /// A hash that is the same until the process ends.
    Hash,
}
