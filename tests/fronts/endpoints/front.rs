//! A proxy with its file of `examples/endpoints`, in front of an application: it asks a gate.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{Client, Gate, eventually, free_port, get_with, installed, root};

/// A proxy with one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Nginx,
    Haproxy,
    Caddy,
    Traefik,
    Envoy,
    /// Envoy with its rate limit service.
    EnvoyRls,
    /// Envoy with its external authorization over gRPC.
    EnvoyAuthz,
    /// Envoy with its external processing.
    EnvoyProc,
}

/// A proxy that reports answers as well, by the lines of its file that are comments otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporter {
    NginxByJs,
    NginxByLua,
    Haproxy,
    Traefik,
    Envoy,
    EnvoyProc,
}

/// What is started.
struct Setup {
    proxy: Proxy,
    reporter: Option<Reporter>,
    /// Whether it speaks HTTP/2 to the application.
    is_http2_behind: bool,
    passes_upgrades: bool,
}

impl Setup {
    fn of(proxy: Proxy) -> Self {
        Self { proxy, reporter: None, is_http2_behind: false, passes_upgrades: false }
    }
}

/// A proxy between clients and an application; gone when dropped.
pub(super) struct Front {
    process: Child,
    /// Where it speaks HTTP/1.1.
    pub(super) address: SocketAddr,
    /// Where it speaks HTTP/2 in clear text, which may be the same.
    pub(super) http2: SocketAddr,
    /// Where it asks.
    pub(super) endpoint: SocketAddr,
    pub(super) gate: Gate,
}

impl Front {
    /// With all examples in the gate's directory, at free ports. `gate` makes the gate's file of the example.
    pub(super) fn start(proxy: Proxy, application: SocketAddr, gate: impl FnOnce(String) -> String) -> Self {
        Self::with(&Setup::of(proxy), application, gate)
    }

    /// The same for one that reports answers.
    pub(super) fn reporting(
        reporter: Reporter,
        application: SocketAddr,
        gate: impl FnOnce(String) -> String,
    ) -> Self {
        let setup = Setup { reporter: Some(reporter), ..Setup::of(reporter.proxy()) };
        Self::with(&setup, application, gate)
    }

    /// The same for a proxy that speaks HTTP/2 to the application, and may report its answers.
    pub(super) fn over_http2(
        proxy: Proxy,
        reporter: Option<Reporter>,
        application: SocketAddr,
        gate: impl FnOnce(String) -> String,
    ) -> Self {
        let setup = Setup { reporter, is_http2_behind: true, ..Setup::of(proxy) };
        Self::with(&setup, application, gate)
    }

    /// Envoy with its file, and a line by which it passes on upgrades.
    pub(super) fn passing_upgrades(application: SocketAddr, gate: impl FnOnce(String) -> String) -> Self {
        Self::with(&Setup { passes_upgrades: true, ..Setup::of(Proxy::Envoy) }, application, gate)
    }

    fn with(setup: &Setup, application: SocketAddr, gate: impl FnOnce(String) -> String) -> Self {
        let proxy = setup.proxy;
        let ports: [u16; 6] = std::array::from_fn(|_| free_port());
        let http2 = if proxy == Proxy::Nginx { free_port() } else { ports[0] };
        let here = |text: &str| {
            let known = [8080, 9181, 9182, 9183, 9184, 9185, 8081];
            let new = ports.into_iter().chain([application.port()]);
            known.iter().zip(new).fold(text.to_owned(), |text, (known, new)| {
                let text = text.replace(&format!("127.0.0.1:{known}"), &format!("127.0.0.1:{new}"));
                let text = text.replace(&format!("http://:{known}"), &format!("http://:{new}"));
                let text = text.replace(&format!("\"127.0.0.1\", {known}"), &format!("\"127.0.0.1\", {new}"));
                text.replace(&format!("port_value: {known}"), &format!("port_value: {new}"))
            })
        };
        let examples = root().join("examples/endpoints");
        let read = |name: &str| here(&fs::read_to_string(examples.join(name)).unwrap());
        let gate = Gate::start(&format!("upstream = \"http://{application}\"\n{}", gate(read("gate.toml"))));
        for name in FILES {
            let place = gate.directory.join(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, read(name)).unwrap();
        }
        if let Some(reporter) = setup.reporter {
            reporter.switch_on(&gate.directory);
        }
        if setup.is_http2_behind {
            proxy.speak_http2_behind(&gate.directory, application);
        }
        if setup.passes_upgrades {
            let new = format!("{ENVOY_ADDRESS}{ENVOY_UPGRADES}");
            proxy.replace_in_file(&gate.directory, ENVOY_ADDRESS, &new);
        }
        let mut command = proxy.command(&gate.directory, [ports[0], http2]);
        command.current_dir(&gate.directory).env("HOME", &gate.directory).stdin(Stdio::null());
        let log = fs::File::create(gate.directory.join("front.log")).unwrap();
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let [address, http2] = [ports[0], http2].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let endpoint = ports[if proxy == Proxy::Nginx { 1 } else { 2 }];
        let endpoint = SocketAddr::from((Ipv4Addr::LOCALHOST, endpoint));
        let front = Self { process, address, http2, endpoint, gate };
        // Traefik listens before it has read its file.
        let listens =
            || TcpStream::connect(address).is_ok() && (proxy != Proxy::Traefik || forwards(address));
        assert!(eventually(Duration::from_secs(20), listens), "{proxy:?} listens: {}", front.said());
        front
    }

    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.gate.directory.join("front.log")).unwrap_or_default()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Reporter {
    pub(super) fn proxy(self) -> Proxy {
        match self {
            Self::NginxByJs | Self::NginxByLua => Proxy::Nginx,
            Self::Haproxy => Proxy::Haproxy,
            Self::Traefik => Proxy::Traefik,
            Self::Envoy => Proxy::Envoy,
            Self::EnvoyProc => Proxy::EnvoyProc,
        }
    }

    /// Switches on the lines by which it reports, by the command of `docs/endpoints.md`.
    fn switch_on(self, directory: &Path) {
        let mark = match self {
            Self::NginxByJs => "#njs# ",
            Self::NginxByLua => "#lua# ",
            Self::Haproxy | Self::Traefik | Self::Envoy => "#outcome# ",
            // It shows them always.
            Self::EnvoyProc => return,
        };
        let documented = fs::read_to_string(root().join("docs/endpoints.md")).unwrap();
        let (_, script) = documented.split_once("`sed -i '").unwrap();
        let (script, _) = script.split_once("' nginx.conf`").unwrap();
        assert!(script.contains("#njs# "), "{script}");
        let mut command = installed("sed", "sed");
        command.current_dir(directory).args(["-i", &script.replace("#njs# ", mark)]).args(FILES);
        assert!(command.status().unwrap().success(), "{script}");
    }
}

impl Proxy {
    /// What starts it with its file of this directory.
    fn command(self, directory: &Path, ports: [u16; 2]) -> Command {
        match self {
            Self::Nginx => nginx(directory, ports),
            Self::Haproxy => {
                let mut command = installed("haproxy", "haproxy");
                command.args(["-db", "-f", "haproxy.cfg"]);
                command
            }
            Self::Caddy => caddy(directory),
            Self::Traefik => traefik(ports[0]),
            Self::Envoy | Self::EnvoyRls | Self::EnvoyAuthz | Self::EnvoyProc => envoy(self.file()),
        }
    }

    /// Its own file of the examples.
    fn file(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::Haproxy => "haproxy.cfg",
            Self::Caddy => "Caddyfile",
            Self::Traefik => "traefik-dynamic.yaml",
            Self::Envoy => "envoy.yaml",
            Self::EnvoyRls => "envoy-rls.yaml",
            Self::EnvoyAuthz => "envoy-ext-authz.yaml",
            Self::EnvoyProc => "envoy-ext-proc.yaml",
        }
    }

    /// Makes its file say that the application at this address speaks HTTP/2 in clear text.
    fn speak_http2_behind(self, directory: &Path, application: SocketAddr) {
        let (old, new) = match self {
            Self::Nginx => panic!("its proxy_pass speaks HTTP/1.1"),
            Self::Haproxy => {
                let server = format!("server application {application}");
                (server.clone(), server + " proto h2")
            }
            Self::Caddy => {
                (format!("reverse_proxy {application}"), format!("reverse_proxy h2c://{application}"))
            }
            Self::Traefik => (format!("url: http://{application}"), format!("url: h2c://{application}")),
            Self::Envoy | Self::EnvoyRls | Self::EnvoyAuthz | Self::EnvoyProc => {
                let cluster = "  - name: application\n    connect_timeout: 2s\n".to_owned();
                (cluster.clone(), cluster + ENVOY_HTTP2)
            }
        };
        self.replace_in_file(directory, &old, &new);
    }

    fn replace_in_file(self, directory: &Path, old: &str, new: &str) {
        let file = directory.join(self.file());
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(old), "{old} in {text}");
        fs::write(file, text.replace(old, new)).unwrap();
    }
}

fn forwards(address: SocketAddr) -> bool {
    let mut client = Client::connect(address);
    client.send(get_with("/", ""));
    client.answer().status == 200
}

/// nginx 1.22 speaks HTTP/2 in clear text at a port of its own.
fn nginx(directory: &Path, [http1, http2]: [u16; 2]) -> Command {
    let file = fs::read_to_string(directory.join("nginx.conf")).unwrap();
    let listen = format!("listen 127.0.0.1:{http1};");
    fs::write(
        directory.join("nginx.conf"),
        file.replace(&listen, &format!("{listen} listen 127.0.0.1:{http2} http2;")),
    )
    .unwrap();
    let at = directory.display();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|kind| format!("{kind}_temp_path {at}/{kind};"));
    let modules = nginx_modules(&file);
    let text = format!(
        "{modules}daemon off; master_process off; pid {at}/nginx.pid; error_log stderr;\n\
         events {{ worker_connections 1000; }}\nhttp {{ access_log off; {} include {at}/nginx.conf; }}\n",
        paths.concat()
    );
    fs::write(directory.join("main.conf"), text).unwrap();
    let mut command = installed("nginx", "nginx-light");
    command.args(["-p", &at.to_string(), "-e", "stderr", "-c", &format!("{at}/main.conf")]);
    command
}

/// What loads the modules by which a file reports. Debian's have to be in their usual place.
fn nginx_modules(file: &str) -> String {
    let js = ("include nginx-njs.conf", "libnginx-mod-http-js", &["ngx_http_js_module"][..]);
    let lua =
        ("include nginx-lua.conf", "libnginx-mod-http-lua", &["ndk_http_module", "ngx_http_lua_module"][..]);
    let is_on = |line: &str| file.lines().any(|other| other.trim_start().starts_with(line));
    let mut loads = String::new();
    for (_, package, modules) in [js, lua].into_iter().filter(|(line, ..)| is_on(line)) {
        for module in modules {
            let place = format!("/usr/lib/nginx/modules/{module}.so");
            assert!(Path::new(&place).is_file(), "this test needs `{place}`, which {package} brings");
            loads += &format!("load_module {place};\n");
        }
    }
    loads
}

fn caddy(directory: &Path) -> Command {
    let file = fs::read_to_string(directory.join("Caddyfile")).unwrap();
    let options = "{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n";
    fs::write(directory.join("Caddyfile"), format!("{options}{file}")).unwrap();
    let mut command = installed("caddy", "caddy");
    command.args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"]);
    command
}

fn traefik(port: u16) -> Command {
    let traefik = root().join("target/tools/traefik/bin/traefik");
    let mut command = installed(traefik.to_str().unwrap(), "scripts/fetch-traefik");
    command
        .arg(format!("--entryPoints.edge.address=127.0.0.1:{port}"))
        .arg("--entryPoints.edge.http.aliasHeadersStrategy=delete")
        .args(["--providers.file.filename=traefik-dynamic.yaml", "--providers.file.watch=false"])
        .arg("--experimental.localPlugins.tollgate.moduleName=tollgate")
        .args(["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false", "--log.level=WARN"]);
    command
}

fn envoy(file: &str) -> Command {
    let envoy = root().join("target/tools/envoy/bin/envoy");
    let mut command = installed(envoy.to_str().unwrap(), "scripts/fetch-envoy");
    let apart = ["--concurrency", "2", "--use-dynamic-base-id", "--log-level", "error"];
    command.args(["--config-path", file]).args(apart);
    command
}

const ENVOY_ADDRESS: &str = "          use_remote_address: true\n";
const ENVOY_UPGRADES: &str = "          upgrade_configs: [ { upgrade_type: websocket } ]\n";

/// What makes Envoy speak HTTP/2 to a cluster, as its files have it for the gate.
const ENVOY_HTTP2: &str = r#"    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
"#;

const FILES: [&str; 16] = [
    "nginx.conf",
    "nginx-njs.conf",
    "nginx-lua.conf",
    "tollgate.js",
    "Caddyfile",
    "haproxy.cfg",
    "tollgate.lua",
    "envoy.yaml",
    "envoy-rls.yaml",
    "envoy-ext-authz.yaml",
    "envoy-ext-proc.yaml",
    "tollgate-envoy.lua",
    "traefik-dynamic.yaml",
    "plugins-local/src/tollgate/.traefik.yml",
    "plugins-local/src/tollgate/go.mod",
    "plugins-local/src/tollgate/tollgate.go",
];
