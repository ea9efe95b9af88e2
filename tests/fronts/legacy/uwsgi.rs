//! uWSGI as people run it behind a proxy: it closes each connection after its answer, and does not say so.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use support::{Gate, get_with, installed, post};

use super::{Place, Workers, free_address};

/// Each POST leaves a byte in a file, whichever process answers it.
const APPLICATION: &str = "
import os
posts = os.open('posts', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def application(environ, start_response):
    if environ['REQUEST_METHOD'] == 'POST':
        environ['wsgi.input'].read(int(environ['CONTENT_LENGTH']))
        os.write(posts, b'x')
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', '5')])
    return [b'hello']
";

fn started(place: &Place) -> (Workers, SocketAddr) {
    let address = free_address();
    let mut command = installed("uwsgi", "uwsgi-core");
    command.args(["--plugin", "python3", "--http-socket", &address.to_string(), "--wsgi-file", "app.py"]);
    command.args(["--need-app", "--master", "--processes", "2", "--listen", "64", "--disable-logging"]);
    (Workers::listening(command, place, address), address)
}

/// Four clients, one after the other a GET and a POST; what they got that is not 200. The rest after the first GET lets each worker
/// see that its connection was closed: a POST within microseconds of the very first answer may come before that.
fn not_answered(gate: &Gate) -> Vec<String> {
    let ask = || {
        let mut client = gate.connect();
        let requests = [get_with("/", ""), post("/note", "a=b")];
        for number in 0..500 {
            if number == 1 {
                std::thread::sleep(Duration::from_millis(200));
            }
            client.send(&requests[number % 2]);
            match client.try_answer() {
                Some(answer) if answer.status == 200 && answer.header("connection").is_none() => {}
                other => return Some(format!("request {number}: {other:?}")),
            }
        }
        None
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn uwsgi_that_closes_without_a_word_costs_no_request_and_repeats_none() {
    let place = Place::with(&[("app.py", APPLICATION)]);
    let (_uwsgi, address) = started(&place);
    let gate = Gate::start(&format!(
        "upstream = \"http://{address}\"\n[proxy]\nclient_rate = \"off\"\n\
         [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n"
    ));
    assert_eq!(not_answered(&gate), Vec::<String>::new(), "{}\n{}", gate.metrics(), place.text("said.log"));
    assert_eq!(fs::read(place.0.join("posts")).unwrap().len(), 1000, "no POST is lost, and none sent twice");
    gate.drain("/login", "");
}
