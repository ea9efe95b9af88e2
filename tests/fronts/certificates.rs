//! nginx, HAProxy and Envoy that ask their clients for certificates, and pass them on by the lines of `docs/clients.md`.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use support::authority::{Authority, Pair, connect_by};
use support::{Gate, Launch, Upstream, installed, post_with, root};

use crate::legacy::{Place, Workers, free_address};

/// A proxy, and the header that it sends.
#[derive(Clone, Copy)]
enum CertificateProxy {
    Nginx,
    Haproxy,
    /// With these details of a certificate.
    Envoy(&'static str),
}

/// A gate that a proxy reaches by a Unix socket, and clients directly.
struct PassingProxy {
    edge: SocketAddr,
    gate: Gate,
    application: Upstream,
    servers: Authority,
    people: Authority,
    // In this order: the process first.
    _proxy: Workers,
    _place: Place,
}

const LIMITS: &str = "[route.login]\nmatch = \"POST /login\"\n\
                      [limit.certificate]\nkey = \"cert\"\nrate = \"2 per 1h\"\n";

impl PassingProxy {
    fn behind(edge: CertificateProxy) -> Self {
        let (servers, people, application) = (Authority::new(), Authority::new(), Upstream::start());
        let word = if matches!(edge, CertificateProxy::Haproxy) { "client-cert" } else { "xfcc" };
        let file = format!(
            "client.trust = \"unix:\"\nclient.certificate = \"{word}\"\n{}\n[tls]\n\
             certificates = [{{ cert = \"server.pem\", key = \"server.key\" }}]\nclient_ca = \"clients.pem\"\n",
            application.file(LIMITS)
        );
        let pair = servers.issue(&["app.test"]);
        let launch = Launch::new(&file).on_tls_too().on_unix_socket_too().with(&pair, "server");
        let gate = launch.beside("clients.pem", &people.pem).start();
        let (address, both) = (free_address(), format!("{}{}", pair.cert, pair.key));
        let config = edge.file(address.port(), &gate.directory.join("gate.sock").display().to_string());
        let place = Place::with(&[
            ("server.pem", &pair.cert),
            ("server.key", &pair.key),
            ("both.pem", &both),
            ("clients.pem", &people.pem),
            (edge.name(), &config),
        ]);
        let proxy = Workers::listening(edge.command(), &place, address);
        Self { edge: address, gate, application, servers, people, _proxy: proxy, _place: place }
    }

    /// The status of a sign-in with this certificate and these lines, at the proxy.
    fn at_the_proxy(&self, certificate: Option<&Pair>, lines: &str) -> u16 {
        self.at(self.edge, certificate, lines)
    }

    /// The same at the gate itself.
    fn at_the_gate(&self, certificate: &Pair) -> u16 {
        self.at(self.gate.tls, Some(certificate), "")
    }

    fn at(&self, address: SocketAddr, certificate: Option<&Pair>, lines: &str) -> u16 {
        let config = match certificate {
            Some(pair) => self.servers.client_config_with(pair),
            None => self.servers.client_config(support::authority::BOTH),
        };
        let mut client = connect_by(&Arc::new(config), address, "app.test");
        client.send(post_with("/login", lines));
        client.answer().status
    }

    fn show(&self, forged: &str) {
        let backup = self.people.issue_to(&["mail, \"relay\" + é"]);
        let [mirror, ghost] = ["mirror", "ghost"].map(|name| self.people.issue_to(&[name]));
        assert_eq!(self.at_the_proxy(Some(&backup), ""), 200);
        assert_eq!(self.at_the_gate(&backup), 200);
        assert_eq!([self.at_the_proxy(Some(&backup), ""), self.at_the_gate(&backup)], [429; 2], "one bucket");
        assert_eq!(self.at_the_proxy(Some(&mirror), forged), 200, "a header of the client's names nobody");
        let last = self.application.last();
        let passed = [last.all("client-cert"), last.all("x-forwarded-client-cert")].concat();
        assert!(passed.len() == 1 && !passed[0].contains("ghost"), "{passed:?}");
        let without = [(); 3].map(|()| self.at_the_proxy(None, forged));
        assert_eq!(without, [200, 200, 429], "without a certificate the proxy's bucket pays");
        assert_eq!([self.at_the_gate(&ghost), self.at_the_gate(&ghost)], [200; 2], "and not that one");
        let foreign = self.servers.issue_to(&["ghost"]);
        assert_ne!(self.at_the_proxy_if_any(&foreign), Some(200), "of another authority");
    }

    /// `None` if the proxy ends the handshake.
    fn at_the_proxy_if_any(&self, certificate: &Pair) -> Option<u16> {
        let config = Arc::new(self.servers.client_config_with(certificate));
        let mut client = connect_by(&config, self.edge, "app.test");
        client.send_what_goes(post_with("/login", "").as_bytes());
        client.try_answer().map(|answer| answer.status)
    }
}

impl CertificateProxy {
    /// Envoy tells formats apart by the name.
    fn name(self) -> &'static str {
        if matches!(self, Self::Envoy(_)) { "edge.yaml" } else { "edge.conf" }
    }

    fn file(self, port: u16, gate: &str) -> String {
        let lines = documented(match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy(_) => "yaml",
        });
        match self {
            Self::Nginx => format!(
                "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off;\n\
                 client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n\
                 server {{ listen 127.0.0.1:{port} ssl;\nssl_certificate server.pem; ssl_certificate_key server.key;\n\
                 ssl_client_certificate clients.pem; ssl_verify_client optional;\n\
                 location / {{ proxy_pass http://unix:{gate}:;\n{lines} }} }} }}\n"
            ),
            Self::Haproxy => format!(
                "defaults\n mode http\n timeout connect 9s\n timeout client 9s\n timeout server 9s\nfrontend edge\n \
                 bind 127.0.0.1:{port} ssl crt both.pem ca-file clients.pem verify optional\n{lines}\n \
                 default_backend gate\nbackend gate\n server gate unix@{gate}\n"
            ),
            Self::Envoy(details) => {
                let lines = lines.replace("cert: true", details).trim_end().replace('\n', "\n          ");
                ENVOY.replace("PORT", &port.to_string()).replace("GATE", gate).replace("LINES", &lines)
            }
        }
    }

    fn command(self) -> Command {
        match self {
            Self::Nginx => {
                let mut command = installed("nginx", "nginx-light");
                command.args(["-p", ".", "-e", "stderr", "-c", "edge.conf"]);
                command
            }
            Self::Haproxy => {
                let mut command = installed("haproxy", "haproxy");
                command.args(["-db", "-f", "edge.conf"]);
                command
            }
            Self::Envoy(_) => {
                let envoy = root().join("target/tools/envoy/bin/envoy");
                let mut command = installed(envoy.to_str().unwrap(), "scripts/fetch-envoy");
                command.args(["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"]);
                command.args(["--config-path", "edge.yaml"]);
                command
            }
        }
    }
}

/// The lines of this language under "Certificates from a proxy".
fn documented(language: &str) -> String {
    let page = fs::read_to_string(root().join("docs/clients.md")).unwrap();
    let (_, section) = page.split_once("## Certificates from a proxy").unwrap();
    let (_, lines) = section.split_once(&format!("```{language}\n")).unwrap();
    lines.split_once("```").unwrap().0.to_owned()
}

const ENVOY: &str = r#"static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
    filter_chains:
    - transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificates: [{ certificate_chain: { filename: server.pem }, private_key: { filename: server.key } }]
            validation_context: { trusted_ca: { filename: clients.pem } }
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          LINES
          route_config: { virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: gate } }] }] }
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: gate
    load_assignment:
      cluster_name: gate
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: GATE } } } }] }]
"#;

/// What a client says of a certificate of `ghost`.
const FORGED: &str = "X-Forwarded-Client-Cert: Subject=\"CN=ghost\"\r\n";

#[test]
fn nginx_passes_on_the_certificate_of_its_client() {
    PassingProxy::behind(CertificateProxy::Nginx).show(FORGED);
}

#[test]
fn haproxy_passes_on_the_certificate_of_its_client() {
    PassingProxy::behind(CertificateProxy::Haproxy)
        .show("Client-Cert: :ghost:\r\nClient-Cert-Chain: :ghost:\r\n");
}

#[test]
fn envoy_passes_on_the_certificate_of_its_client() {
    PassingProxy::behind(CertificateProxy::Envoy("cert: true")).show(FORGED);
}

#[test]
fn envoy_passes_on_the_subject_of_its_client() {
    PassingProxy::behind(CertificateProxy::Envoy("subject: true")).show(FORGED);
}
