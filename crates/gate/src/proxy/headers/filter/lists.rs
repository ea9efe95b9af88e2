//! The built-in header names, in lower case; `*` at the end matches any rest. A test compares them with
//! `docs/headers.md`, which gives the origin of each.
//!
//! Headers with a client's own credentials are left out on purpose: `X-Auth-Token`, `X-User-Id`, `X-Access-Token`,
//! `Cf-Access-Client-Id`. If an application trusts one of them as a proxy's, `proxy.strip` has to name it.

use crate::defences::HEADERS;

/// Headers that give a request its meaning: passed unchanged, and never under another spelling.
pub const ALWAYS_PASSED: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "content-type",
    "cookie",
    "authorization",
    "x-request-id",
];

/// Headers that are rewritten here; a trusted proxy's values are kept. `Forwarded` is only kept, never written.
pub const REWRITTEN: &[&str] = &["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];

/// Other sources of the client address than the configured one, and headers that change host, path or method.
#[rustfmt::skip]
pub const NEVER: &[&str] = &[
    // Addresses.
    "x-forwarded", "forwarded-for", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-true-client-ip",
    "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4", "fastly-client-ip", "fly-client-ip", "do-connecting-ip",
    "x-cluster-client-ip", "x-original-forwarded-for", "x-originating-ip", "x-remote-ip", "x-remote-addr",
    "remote-addr", "x-proxyuser-ip", "wl-proxy-client-ip", "http-client-ip", "x-envoy-external-address",
    "x-envoy-internal", "x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip", "x-nf-client-connection-ip",
    "x-vercel-forwarded-for", "cloudfront-viewer-address", "incap-client-ip", "ali-cdn-real-ip", "cdn-src-ip",
    "x-sucuri-clientip",
    // Proxies, ports and hosts.
    "proxy", "proxy-*", "x-forwarded-by", "x-forwarded-port", "x-forwarded-server", "x-forwarded-scheme",
    "x-forwarded-ssl", "x-host", "x-original-host", "x-http-host-override",
    // The path and the method.
    "x-original-url", "x-original-uri", "x-original-method", "x-rewrite-url", "x-request-uri", "x-forwarded-uri",
    "x-forwarded-path", "x-forwarded-method", "x-script-name", "script-name", "path-info", "x-envoy-original-path",
    "x-replaced-path", "x-waws-unencoded-url",
    // What the gate tells applications.
    "x-tollgate-refused", "x-tollgate-failures",
    // Files sent in place of the response.
    "x-sendfile-type", "x-accel-mapping",
];

/// What defences tell applications: never passed either.
pub const OF_DEFENCES: &[&str] = HEADERS;

/// Account, certificate and scheme, as asserted by a proxy.
#[rustfmt::skip]
pub const UNLESS_TRUSTED: &[&str] = &[
    // Accounts.
    "remote-*", "x-remote-*", "auth-user", "x-webauth-*", "webauth-*", "x-auth-request-*", "x-forwarded-*", "gap-auth",
    "gap-signature", "x-authenticated-*", "x-authentik-*", "x-pomerium-*", "cf-access-jwt-assertion",
    "cf-access-authenticated-user-email", "x-amzn-oidc-*", "x-ms-client-principal*", "x-ms-token-*", "x-goog-iap-*",
    "x-goog-authenticated-user-*", "x-endpoint-api-userinfo", "x-apigateway-api-userinfo", "shib-*", "eppn",
    "affiliation", "unscoped-affiliation", "entitlement", "targeted-id", "persistent-id", "oidc-*", "mellon-*",
    "cas-user", "x-auth-username", "x-auth-userid", "x-auth-email", "x-auth-groups", "x-auth-roles", "x-auth-subject",
    "x-auth-audience", "x-auth-expiresin", "x-user", "teleport-*", "x-teleport-*", "tailscale-*", "x-vouch-*",
    "x-token-user-*", "x-token-subject", "x-consumer-*", "x-anonymous-consumer", "x-credential-*", "x-userinfo",
    "x-id-token", "iv-user", "iv-user-l", "iv-groups", "iv-creds", "iv-remote-address", "sm-*", "sm_*", "smuser",
    "oam-*", "osso-*", "x-sso-*", "x-proxy-user", "x-proxy-roles", "es-security-runas-user", "x-rstudio-username",
    "$ws*",
    // Certificates.
    "x-ssl-*", "ssl-client-*", "ssl_client_*", "x-client-cert*", "x-clientcert*", "x-client-dn", "x-client-verify",
    "x-client-verified", "x-tls-client-*", "client-cert", "client-cert-chain", "x-arr-*", "x-amzn-mtls-*",
    "cf-client-cert-*", "cf-cert-*", "wl-proxy-*",
    // Schemes.
    "x-scheme", "x-url-scheme", "front-end-https",
];
