//! What the file says about logs, checked: `[log]`.

use std::path::PathBuf;

/// What the file says about logs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSettings {
    /// The least severe messages that are written.
    pub level: LogLevel,
    /// How messages look.
    pub format: LogFormat,
    /// Where the access log goes; `None` writes none.
    pub access: Option<AccessTarget>,
    /// How lines of the access log look.
    pub style: AccessLogStyle,
    /// How addresses are written.
    pub clients: ClientsShown,
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

/// How the program's own messages look on standard error.
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

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTarget {
    /// `"-"`.
    StandardOutput,
    /// A file, appended to, opened again on SIGUSR1.
    File(PathBuf),
}

/// How lines of the access log look.
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
