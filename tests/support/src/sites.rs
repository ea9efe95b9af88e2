//! The estate of a hoster: one main file, and a file for each of many sites.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The tables of the main file: what all sites share.
pub const SHARED: &str = "[limit.address]\nrate = \"10 per 5m\"\n\
                          [limit.account]\nkey = \"user\"\nrate = \"5 per 10m\"\ncount = \"failures\"\n";

/// The line of the main file that includes the sites.
pub const INCLUDE: &str = "include = \"sites/*.toml\"\n";

/// The name of a site, whose file and host are called so as well.
pub fn name(number: usize) -> String {
    format!("site{number:04}")
}

/// A site with a preset, its own hosts and its own upstream.
pub fn wordpress(number: usize, upstream: SocketAddr) -> String {
    let (name, place) = (name(number), place(number, upstream));
    format!("[route.{name}]\npreset = \"wordpress\"\n{place}{}", pages(&name, &place))
}

/// The same with one form, and its own limit for it.
pub fn plain(number: usize, upstream: SocketAddr) -> String {
    let (name, place) = (name(number), place(number, upstream));
    let limit = format!("[limit.{name}]\nroutes = [\"{name}\"]\nkey = \"user\"\nrate = \"20 per 1h\"\n");
    let form = "match = \"POST /login\"\nuser = \"form:user\"\npassword = \"form:pass\"\n\
                success = { location = \"/home*\" }\n";
    format!("[route.{name}]\n{form}{place}{}{limit}", pages(&name, &place))
}

/// The rest of a site, without limits.
fn pages(name: &str, place: &str) -> String {
    format!("[route.{name}-pages]\nmatch = \"ANY /**\"\nlimits = []\n{place}")
}

/// Writes the files of so many sites below a directory.
pub fn write(directory: &Path, count: usize, site: impl Fn(usize) -> String) {
    fs::create_dir_all(directory.join("sites")).unwrap();
    for number in 0..count {
        fs::write(directory.join(format!("sites/{}.toml", name(number))), site(number)).unwrap();
    }
}

fn place(number: usize, upstream: SocketAddr) -> String {
    let name = name(number);
    format!("host = [\"{name}.example.org\", \"www.{name}.example.org\"]\nupstream = \"http://{upstream}\"\n")
}
