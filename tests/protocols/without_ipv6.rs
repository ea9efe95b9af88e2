//! A kernel without IPv6: what listens everywhere listens to IPv4, and says so.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use support::{Client, Upstream, binary, compile, free_port, new_directory, post};

#[test]
fn without_ipv6_all_addresses_are_those_of_ipv4() {
    let (upstream, directory, port) = (Upstream::start(), new_directory(), free_port());
    let (library, file) = (directory.join("no_ipv6.so"), directory.join("gate.toml"));
    compile(&["-shared", "-fPIC", "-O1"], "tests/tools/no_ipv6.c", &library);
    fs::write(&file, format!("listen = \"http://[::]:{port}\"\n{}", upstream.file(""))).unwrap();
    let mut command = Command::new(binary());
    command.args(["run", "-c"]).arg(&file).env("LD_PRELOAD", &library).stderr(Stdio::piped());
    let mut gate = command.spawn().unwrap();
    // Ends when the gate listens, or has ended.
    let mut said = Vec::new();
    let lines = BufReader::new(gate.stderr.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let listens = line.contains("listening at");
        said.push(line);
        if listens {
            break;
        }
    }
    let answer = said.last().is_some_and(|line| line.contains("listening at")).then(|| {
        let mut client = Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        client.send(post("/", ""));
        client.answer().status
    });
    let _ = gate.kill();
    let _ = gate.wait();
    let _ = fs::remove_dir_all(&directory);
    assert_eq!(answer, Some(200), "{said:?}");
    let words = format!("the kernel has no IPv6: http://[::]:{port} becomes http://0.0.0.0:{port}");
    assert!(said.iter().any(|line| line.contains(&words)), "{said:?}");
}
