//! The headers that checks, records and generated responses take from a request, found in one pass.
//!
//! Each look-up by name hashes it; a pass over the names of a browser's request costs less than three of them.

use http::{HeaderMap, HeaderValue};

/// The first header of each of these names.
#[derive(Debug, Default)]
pub struct RecordedHeaders<'a> {
    /// `Accept`.
    pub accept: Option<&'a HeaderValue>,
    /// `Host`.
    pub host: Option<&'a HeaderValue>,
    /// `Referer`.
    pub referer: Option<&'a HeaderValue>,
    /// `User-Agent`.
    pub user_agent: Option<&'a HeaderValue>,
    /// Whether the request names another client than its peer, as a proxy does.
    pub names_client: bool,
    /// Whether it names the scheme that the client speaks, likewise.
    pub names_scheme: bool,
    /// `Expect`.
    pub expect: Option<&'a HeaderValue>,
    /// `Transfer-Encoding`.
    pub transfer_encoding: Option<&'a HeaderValue>,
    /// Which of those there are that forwarding reads.
    pub forwarding: ForwardingHeaders,
    request_id: Option<&'a HeaderValue>,
    several: SeveralHeaders,
}

/// Which of the headers there are that forwarding reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct ForwardingHeaders {
    /// `Authorization`.
    pub authorization: bool,
    /// `Upgrade`.
    pub upgrade: bool,
}

/// Of which headers there are several.
#[derive(Debug, Default)]
struct SeveralHeaders {
    hosts: bool,
    expectations: bool,
    codings: bool,
    ids: bool,
}

impl<'a> RecordedHeaders<'a> {
    /// Those of a request.
    #[must_use]
    pub fn of(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            let place = match name.as_str() {
                "accept" => &mut found.accept,
                "host" => {
                    found.several.hosts = found.host.is_some();
                    &mut found.host
                }
                "expect" => {
                    found.several.expectations = found.expect.is_some();
                    &mut found.expect
                }
                "transfer-encoding" => {
                    found.several.codings = found.transfer_encoding.is_some();
                    &mut found.transfer_encoding
                }
                "authorization" => {
                    found.forwarding.authorization = true;
                    continue;
                }
                "upgrade" => {
                    found.forwarding.upgrade = true;
                    continue;
                }
                "referer" => &mut found.referer,
                "user-agent" => &mut found.user_agent,
                "x-request-id" => {
                    found.several.ids = found.request_id.is_some();
                    &mut found.request_id
                }
                "x-forwarded-for" => {
                    found.names_client = true;
                    continue;
                }
                "x-forwarded-proto" => {
                    found.names_scheme = true;
                    continue;
                }
                "forwarded" => {
                    found.names_client = true;
                    found.names_scheme |= names_proto(value);
                    continue;
                }
                _ => continue,
            };
            place.get_or_insert(value);
        }
        found
    }

    /// Whether there is more than one `Host`.
    #[must_use]
    pub fn has_several_hosts(&self) -> bool {
        self.several.hosts
    }

    /// Whether there is more than one `Expect`.
    #[must_use]
    pub fn has_several_expectations(&self) -> bool {
        self.several.expectations
    }

    /// Whether there is more than one `Transfer-Encoding`.
    #[must_use]
    pub fn has_several_codings(&self) -> bool {
        self.several.codings
    }

    /// The client's own request id, if it is safe in logs and headers: one header of visible ASCII characters, at most
    /// `MAX_REQUEST_ID_LEN` of them.
    #[must_use]
    pub fn usable_request_id(&self) -> Option<&'a HeaderValue> {
        let is_usable = |id: &&HeaderValue| {
            (1..=MAX_REQUEST_ID_LEN).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        self.request_id.filter(|_| !self.several.ids).filter(is_usable)
    }
}

/// Whether this line of `Forwarded` has a `proto` (RFC 7239, section 5.4).
fn names_proto(line: &HeaderValue) -> bool {
    line.as_bytes().windows(6).any(|part| part.eq_ignore_ascii_case(b"proto="))
}

/// Bytes of a client's own request id.
const MAX_REQUEST_ID_LEN: usize = 128;

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let lines =
            lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
        lines.fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
    }

    #[test]
    fn a_request_id_is_kept_if_it_can_go_anywhere() {
        let usable = |lines: &[(&str, &str)]| RecordedHeaders::of(&map(lines)).usable_request_id().is_some();
        assert!(usable(&[("x-request-id", "0b1-c")]));
        for bad in ["", "a b", &"x".repeat(129)] {
            assert!(!usable(&[("x-request-id", bad)]), "{bad}");
        }
        assert!(!usable(&[("x-request-id", "a"), ("x-request-id", "b")]));
        assert!(!usable(&[("x-request-id", "a"), ("x-request-id", "b"), ("x-request-id", "c")]));
        assert!(!usable(&[("accept", "a")]));
    }

    #[test]
    fn the_first_of_several_lines_is_recorded() {
        let names = ["accept", "host", "referer", "user-agent"];
        let lines: Vec<_> = names.iter().flat_map(|name| [(*name, "first"), (*name, "second")]).collect();
        let headers = map(&lines);
        let found = RecordedHeaders::of(&headers);
        for value in [found.accept, found.host, found.referer, found.user_agent] {
            assert_eq!(value, headers.get("host"));
        }
        assert!(!found.names_client);
    }

    #[test]
    fn a_request_that_names_a_client_is_told() {
        for name in ["X-Forwarded-For", "Forwarded"] {
            assert!(RecordedHeaders::of(&map(&[(name, "192.0.2.1")])).names_client, "{name}");
        }
    }
}
