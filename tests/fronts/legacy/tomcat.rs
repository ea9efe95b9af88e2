//! Tomcat with Debian's examples, of which one has a form sign-in by the container.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use support::application::{cookie, post};
use support::{Answer, Client, Gate, get_with, installed, root};

use super::{Place, Workers, free_address};

const PAGE: &str = "/examples/jsp/security/protected/index.jsp";
const FORM: &str = "/examples/jsp/security/protected/j_security_check";

/// With the files that `scripts/real-apps` gives it.
fn started(place: &Place) -> (Workers, Gate) {
    let (address, files) = (free_address(), root().join("tests/apps/tomcat"));
    for part in ["conf", "logs", "temp", "webapps"] {
        fs::create_dir(place.0.join(part)).unwrap();
    }
    let script = "/usr/share/tomcat10/bin/catalina.sh";
    let shared = std::path::Path::new("/usr/share/tomcat10/etc/web.xml");
    assert!(shared.exists(), "this test needs {script}, which tomcat10 and tomcat10-examples bring");
    for file in [files.join("server.xml"), files.join("users.xml"), shared.to_owned()] {
        fs::copy(&file, place.0.join("conf").join(file.file_name().unwrap())).unwrap();
    }
    let mut command = installed("sh", "dash");
    command.args([script, "run"]).env("CATALINA_HOME", "/usr/share/tomcat10").env("CATALINA_BASE", &place.0);
    let options = format!(
        "-Dapp.host=127.0.0.1 -Dapp.port={} -Dapp.basic={} -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        address.port(),
        files.join("basic").display()
    );
    command.env("CATALINA_OPTS", options);
    let tomcat = Workers::listening(command, place, address);
    compile_form(address);
    let gate = Gate::start(&format!(
        "upstream = \"http://{address}\"\n[route.login]\npreset = \"tomcat\"\n\
         [limit.address]\nrate = \"10 per 1h\"\ncount = \"failures\"\n[proxy]\nclient_rate = \"off\"\n"
    ));
    (tomcat, gate)
}

/// Tomcat compiles a page when it is asked for it first, which takes it long on a busy machine.
fn compile_form(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let request = get_with(PAGE, "Connection: close\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("j_security_check"), "{answer}");
}

/// A browser that keeps the cookie of the session.
struct Browser {
    client: Client,
    session: String,
}

impl Browser {
    fn new(gate: &Gate, last: u8) -> Self {
        Self { client: gate.connect_from(Ipv4Addr::new(127, 0, 9, last)), session: String::new() }
    }

    fn ask(&mut self, request: impl Fn(&str) -> String) -> Answer {
        self.client.send(request(&format!("Cookie: JSESSIONID={}\r\n", self.session)));
        let answer = self.client.answer();
        self.session = cookie(&answer, "JSESSIONID").unwrap_or(std::mem::take(&mut self.session));
        answer
    }

    fn page(&mut self) -> String {
        self.ask(|lines| get_with(PAGE, lines)).text()
    }

    /// As a person does it: the page shows the form, which is sent with the session that came with it.
    fn sign_in(&mut self, password: &str) -> Answer {
        assert!(self.page().contains("j_security_check"), "it shows the form");
        let form = format!("j_username=margaret&j_password={password}");
        self.ask(|lines| post(FORM, lines, &form))
    }
}

/// One test of all, since it takes Tomcat seconds to start.
#[test]
fn tomcat_signs_in_through_the_gate_and_every_wrong_password_counts() {
    let place = Place::with(&[]);
    let (_tomcat, gate) = started(&place);
    right_passwords_let_in(&gate);
    let mut guesser = Browser::new(&gate, 2);
    for _ in 0..10 {
        let answer = guesser.sign_in("wrong");
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("Invalid user name and/or password"), "{}", answer.text());
    }
    assert_eq!(guesser.sign_in("wrong").status, 429);
    assert_eq!(guesser.sign_in("correct-horse-battery-staple").status, 429);
    right_passwords_let_in(&gate);
    assert_eq!(answers_of_many_gets(&gate), vec![200; 500], "{}", place.text("said.log"));
}

/// More often than the limit would allow for failures.
fn right_passwords_let_in(gate: &Gate) {
    for _ in 0..6 {
        let mut person = Browser::new(gate, 1);
        let answer = person.sign_in("correct-horse-battery-staple");
        assert!(matches!(answer.status, 302 | 303), "{answer:?}");
        assert!(person.page().contains("You are logged in"), "the cookie is good");
    }
}

/// Four clients at once, each over one connection.
fn answers_of_many_gets(gate: &Gate) -> Vec<u16> {
    let ask = || {
        let mut client = gate.connect();
        let statuses = (0..125).map(|_| {
            client.send(get_with("/examples/jsp/images/code.gif", ""));
            client.answer().status
        });
        statuses.collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}
