//! The checked settings of logs: `[log]`.

use std::path::PathBuf;

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSettings {
    /// The least severe messages that are written.
    pub level: LogLevel,
    /// The format of messages.
    pub format: LogFormat,
    /// The target of the access log; `None` writes none.
    pub access: Option<AccessTarget>,
    /// The style of lines in the access log.
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

/// The target of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTarget {
    /// `"-"`.
    StandardOutput,
    /// A file, appended to, reopened on SIGUSR1.
    File(PathBuf),
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
