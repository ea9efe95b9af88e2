//! php-fpm behind nginx, both as Debian has them: the gate is the third in the row.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;

use support::application::sign_in_with;
use support::{Gate, installed};

use super::{Place, Workers, free_address};

const PAGE: &str = "<?php
if (isset($_FILES['file'])) {
    echo $_POST['title'], ' ', $_FILES['file']['size'], ' ', hash_file('crc32b', $_FILES['file']['tmp_name']);
} elseif ($_POST['password'] === 'right') {
    header('Location: /home', true, 302);
} else {
    echo 'Login failed for ', htmlspecialchars($_POST['name']);
}
";

const FPM: &str = "[global]
error_log = DIRECTORY/fpm-error.log
[www]
listen = DIRECTORY/php.sock
listen.mode = 0666
user = www-data
group = www-data
pm = static
pm.max_children = 2
php_admin_value[upload_max_filesize] = 8M
php_admin_value[post_max_size] = 8M
";

/// `/head` answers the head of its request as it came.
const NGINX: &str = "daemon off;
load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;
pid DIRECTORY/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path DIRECTORY/body;
  fastcgi_temp_path DIRECTORY/fastcgi;
  proxy_temp_path DIRECTORY/proxy;
  uwsgi_temp_path DIRECTORY/uwsgi;
  scgi_temp_path DIRECTORY/scgi;
  client_max_body_size 8m;
  server {
    listen ADDRESS;
    location = /head { echo -n $echo_client_request_headers; }
    location / {
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME DIRECTORY/page.php;
      fastcgi_pass unix:DIRECTORY/php.sock;
    }
  }
}
";

/// php-fpm, nginx before it, and the gate before both.
struct Row {
    gate: Gate,
    place: Place,
    _servers: [Workers; 2],
}

impl Row {
    fn start() -> Self {
        let (place, address) = (Place::with(&[("page.php", PAGE)]), free_address());
        let here = |text: &str| {
            let text = text.replace("DIRECTORY", place.0.to_str().unwrap());
            text.replace("ADDRESS", &address.to_string())
        };
        fs::write(place.0.join("fpm.conf"), here(FPM)).unwrap();
        fs::write(place.0.join("nginx.conf"), here(NGINX)).unwrap();
        let servers = [php_fpm(&place), nginx(&place, address)];
        let gate = Gate::start(&format!(
            "upstream = \"http://{address}\"\n[route.login]\nmatch = \"POST /login\"\nsuccess = {{ status = 302 }}\n\
             [limit.address]\nrate = \"10 per 1h\"\ncount = \"failures\"\n"
        ));
        Self { gate, place, _servers: servers }
    }

    fn sign_in(&self, last: u8, password: &str) -> (u16, String) {
        let mut client = self.gate.connect_from(Ipv4Addr::new(127, 0, 9, last));
        client.send(sign_in_with("", &format!("name=anna&password={password}")));
        let answer = client.answer();
        (answer.status, answer.text())
    }
}

/// The newest version that is installed.
fn php_fpm(place: &Place) -> Workers {
    let entries =
        fs::read_dir("/usr/sbin").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let newest = entries.filter(|name| name.starts_with("php-fpm")).max();
    let mut command = installed(newest.as_deref().unwrap_or("php-fpm"), "php-fpm");
    command.args(["-F", "-y"]).arg(place.0.join("fpm.conf"));
    let socket = place.0.join("php.sock");
    Workers::start(command, place, || UnixStream::connect(&socket).is_ok())
}

fn nginx(place: &Place, address: SocketAddr) -> Workers {
    let mut command = installed("nginx", "nginx-light");
    assert!(
        Path::new("/usr/lib/nginx/modules/ngx_http_echo_module.so").exists(),
        "libnginx-mod-http-echo is missing"
    );
    command.arg("-p").arg(&place.0).args(["-e", "stderr", "-c"]).arg(place.0.join("nginx.conf"));
    Workers::listening(command, place, address)
}

#[test]
fn wrong_passwords_at_php_are_counted_and_right_ones_are_not() {
    let row = Row::start();
    for _ in 0..3 {
        assert_eq!(row.sign_in(1, "right").0, 302, "{}", row.place.text("said.log"));
    }
    for _ in 0..10 {
        let (status, text) = row.sign_in(1, "wrong");
        assert_eq!((status, text.as_str()), (200, "Login failed for anna"), "{}", row.place.text("said.log"));
    }
    assert_eq!(row.sign_in(1, "wrong").0, 429);
    assert_eq!(row.sign_in(2, "right").0, 302, "another client");
}

#[test]
fn an_upload_of_3_mb_arrives_whole_at_php() {
    let row = Row::start();
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut sum = flate2::Crc::new();
    sum.update(&content);
    let body = [
        b"--edge\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nholiday\r\n--edge\r\n\
          Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n",
        &content[..],
        b"\r\n--edge--\r\n",
    ]
    .concat();
    let expected = format!("holiday 3000000 {:08x}", sum.sum());
    let kind = "Host: app.test\r\nContent-Type: multipart/form-data; boundary=edge\r\n";
    let mut client = row.gate.connect();
    client.send(format!("POST /upload HTTP/1.1\r\n{kind}Content-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.answer().text(), expected, "{}", row.place.text("said.log"));
    client.send(format!("POST /upload HTTP/1.1\r\n{kind}Transfer-Encoding: chunked\r\n\r\n"));
    for piece in body.chunks(50_000) {
        client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.answer().text(), expected, "{}", row.place.text("said.log"));
}

#[test]
fn nginx_sees_header_names_in_the_case_in_which_they_were_sent() {
    let row = Row::start();
    let lines = "X-CSRFToken: a\r\nSOAPAction: \"b\"\r\nx-lower: c\r\nsec-CH-ua: d\r\n";
    let head = row.gate.ask(support::get_with("/head", lines)).text();
    for line in lines.lines() {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
}
