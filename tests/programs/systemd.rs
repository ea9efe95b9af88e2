//! The units of `contrib/systemd`, as systemd reads them, and sockets that its own program passes.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use support::{Upstream, binary, eventually, free_port, get_with, installed, new_directory, root};

fn unit(name: &str) -> String {
    fs::read_to_string(root().join("contrib/systemd").join(name)).unwrap()
}

#[test]
fn systemd_takes_the_units_and_finds_them_guarded() {
    let directory = new_directory();
    let binary = directory.join("tollgate");
    fs::copy(support::binary(), &binary).unwrap();
    let names = ["tollgate.service", "tollgate.socket", "tollgate-trust.service", "tollgate-trust.timer"];
    for name in names {
        fs::write(directory.join(name), unit(name).replace("/usr/bin/tollgate", binary.to_str().unwrap()))
            .unwrap();
    }
    let verify = |name: &str| {
        let output = installed("systemd-analyze", "systemd")
            .args(["verify", "--man=no"])
            .arg(directory.join(name))
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // What it says of other units of this machine is not about ours.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("tollgate")).collect();
        assert!(ours.is_empty(), "{ours:?}");
    };
    names.into_iter().for_each(verify);
    let service = directory.join("tollgate.service");
    let output = installed("systemd-analyze", "systemd")
        .args(["security", "--offline=yes", "--threshold=15", "--no-pager"])
        .arg(service)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn sockets_of_every_kind_are_taken_by_their_names() {
    let (upstream, directory) = (Upstream::start(), new_directory());
    let (web, admin) = (SocketAddr::from(([127, 0, 0, 1], free_port())), free_port());
    let (file, local) = (directory.join("gate.toml"), directory.join("local.sock"));
    let listen = "listen = [\"systemd:web\", \"systemd:local\"]\nadmin.listen = \"systemd:admin\"\n";
    fs::write(&file, format!("{listen}{}", upstream.line())).unwrap();
    let mut process = installed("systemd-socket-activate", "systemd")
        .args(["-l", &web.to_string(), "-l", local.to_str().unwrap(), "-l", &format!("127.0.0.1:{admin}")])
        .arg("--fdname=web:local:admin")
        .arg(binary())
        .args(["run", "-c"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = get_with("/", "Connection: close\r\n").replace("app.test", "127.0.0.1");
    let mut by_port = None;
    assert!(eventually(Duration::from_secs(10), || {
        by_port = TcpStream::connect(web).ok();
        by_port.is_some()
    }));
    let answer = |stream: &mut dyn ReadWrite, request: &str| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let answers = [
        answer(&mut by_port.unwrap(), &request),
        answer(&mut UnixStream::connect(&local).unwrap(), &request),
        answer(&mut TcpStream::connect(("127.0.0.1", admin)).unwrap(), &request.replace("/ ", "/readyz ")),
    ];
    let _ = process.kill();
    let _ = process.wait();
    fs::remove_dir_all(directory).unwrap();
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 200")), "{answers:?}");
}

trait ReadWrite: std::io::Read + std::io::Write {}
impl<T: std::io::Read + std::io::Write> ReadWrite for T {}
