//! The header of a syslog message (RFC 5424, 6.2), before the object of a decision.

use rustix::system::uname;

use super::super::json_fields::{number, put, thousandths};
use crate::event::LimitDecision;
use crate::time::Time;

/// The fields that stay the same.
#[derive(Debug)]
pub(super) struct SyslogHeader {
    /// As in ` www1 tollgate 4711 decision - `.
    sender: String,
}

impl SyslogHeader {
    /// With the name of this host and the id of this process.
    pub(super) fn of_this_process() -> Self {
        let system = uname();
        let name = system.nodename().to_str().unwrap_or_default();
        // 6.2.4: printable ASCII, or "-" for none.
        let is_printable = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let name = if is_printable { name } else { "-" };
        Self { sender: format!(" {name} tollgate {} decision - ", std::process::id()) }
    }

    /// Appends the header of a decision on a request that arrived at `at`, in this second.
    pub(super) fn write(&self, line: &mut Vec<u8>, second: &str, at: Time, decision: LimitDecision) {
        let severity = match decision {
            LimitDecision::Refuse => WARNING,
            LimitDecision::Admit | LimitDecision::Observe | LimitDecision::Exempt => INFORMATIONAL,
        };
        put(line, &["<"]);
        number(line, AUTH * 8 + severity);
        put(line, &[">1 ", second, "."]);
        thousandths(line, at.as_nanos() / 1_000_000 % 1_000);
        put(line, &["Z", &self.sender]);
    }
}

/// 6.2.1: security and authorization messages.
const AUTH: u8 = 4;
const WARNING: u8 = 4;
const INFORMATIONAL: u8 = 6;
