//! Why a directive of nginx is not carried over, by its name.

/// The reason, for a comment.
pub(super) fn reason(name: &str) -> &'static str {
    let known = REASONS.iter().find(|(names, _)| {
        names.split_whitespace().any(|known| match known.strip_suffix('*') {
            Some(front) => name.starts_with(front),
            None => name == known,
        })
    });
    known.map_or(UNKNOWN, |(_, reason)| reason)
}

/// Directives that only hold others.
pub(super) const BLOCKS: [&str; 6] = ["http", "server", "location", "upstream", "map", "geo"];

const REASONS: [(&str, &str); 15] = [
    ("include", "the file is not read: import it as well, and add its tables here"),
    (
        "fastcgi_* uwsgi_* scgi_* grpc_* memcached_* root alias try_files index autoindex expires",
        "tollgate speaks HTTP and serves no files: keep nginx for that, behind the gate",
    ),
    (
        "allow deny satisfy",
        "tollgate limits and forbids nobody: keep this in the application or the firewall",
    ),
    (
        "auth_basic auth_basic_user_file auth_request auth_jwt*",
        "tollgate checks no passwords: the application does",
    ),
    ("ssl_* http2 http3", "write certificates into [tls] and listen = \"https://[::]:443\""),
    ("limit_req_log_level limit_conn_log_level", "log.decisions has all refusals"),
    (
        "limit_req_status limit_conn_status",
        "refusals answer 429 with Retry-After, or 503 where in_flight is full",
    ),
    ("limit_rate limit_rate_after", "tollgate does not slow answers down"),
    ("access_log error_log log_format log_not_found", "write log.access and log.level"),
    ("proxy_set_header proxy_pass_header proxy_hide_header", "tollgate sets X-Forwarded-* itself"),
    ("proxy_connect_timeout proxy_read_timeout proxy_send_timeout", "[proxy] has time-outs"),
    ("keepalive_timeout client_header_timeout client_body_timeout send_timeout", "[proxy] has time-outs"),
    (
        "worker_* events user pid sendfile tcp_nopush tcp_nodelay use multi_accept daemon load_module types types_hash_max_size default_type server_tokens",
        "about nginx itself",
    ),
    (
        "gzip* brotli* add_header error_page return rewrite if set proxy_cache* proxy_redirect sub_filter* more_set_headers open_file_cache*",
        "tollgate changes neither requests nor answers",
    ),
    (
        "keepalive least_conn ip_hash hash random zone resolver*",
        "of several upstreams the least busy one is used",
    ),
];
const UNKNOWN: &str = "has no counterpart here, or is not understood";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_has_a_reason() {
        assert!(reason("ssl_certificate").contains("[tls]"));
        assert!(reason("fastcgi_pass").contains("behind the gate"));
        assert_eq!(reason("proxy_read_timeout"), "[proxy] has time-outs");
        assert_eq!(reason("no_such_directive"), UNKNOWN);
    }
}
