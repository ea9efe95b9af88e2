//! The access log: one line for each response, in the style that `log.style` names.
//!
//! How lines reach a file is left to `line_log`.

mod line;

use super::client_format::ClientFormatter;
use super::line_log::LineFormat;
use super::settings::AccessLogStyle;
use crate::event::AccessLogEntry;

/// Formats one line for each response.
#[derive(Debug)]
pub struct AccessLines {
    style: AccessLogStyle,
    clients: ClientFormatter,
}

impl AccessLines {
    /// Lines in this style, with clients as `clients` writes them.
    #[must_use]
    pub fn new(style: AccessLogStyle, clients: ClientFormatter) -> Self {
        Self { style, clients }
    }
}

impl LineFormat for AccessLines {
    fn second(&self) -> &'static str {
        match self.style {
            AccessLogStyle::Combined => "%d/%b/%Y:%H:%M:%S +0000",
            AccessLogStyle::Json => "%Y-%m-%dT%H:%M:%S",
        }
    }

    fn write(&self, text: &mut Vec<u8>, second: &str, entry: &AccessLogEntry) -> u64 {
        match self.style {
            AccessLogStyle::Combined => line::combined(text, second, &self.clients, entry),
            AccessLogStyle::Json => line::json(text, second, &self.clients, entry),
        }
        1
    }
}
