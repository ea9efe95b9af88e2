//! Which optional parts this program was built with: the features of Cargo that a file or a command may need.
//!
//! The stores among them are known to the store crate, which parses their addresses.

/// An optional part.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    name: &'static str,
    is_built: bool,
}

/// TLS towards clients and upstreams.
pub const TLS: Feature = Feature { name: "tls", is_built: cfg!(feature = "tls") };
/// Certificates that an authority issues to the gate itself.
pub const ACME: Feature = Feature { name: "acme", is_built: cfg!(feature = "acme") };
/// Answers of DNS with their TTL, and SRV records.
pub const DNS: Feature = Feature { name: "dns", is_built: cfg!(feature = "dns") };
/// The export to a collector.
pub const OTEL: Feature = Feature { name: "otel", is_built: cfg!(feature = "otel") };

impl Feature {
    /// What to tell those who need this part; `None` if the program has it.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        (!self.is_built).then(|| without(self.name))
    }
}

/// The message about a part that was left out.
#[must_use]
pub fn without(name: &str) -> String {
    format!("this program was built without {name}: cargo build --release")
}

/// The hint that goes with it.
pub const HINT: &str = "a release has all features, unless some are left out on purpose; a program names those of tollgate-tower in its \
                        Cargo.toml";
