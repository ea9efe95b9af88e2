//! Addresses as text, written into memory that is there.

use std::io::Write as _;
use std::net::IpAddr;

/// Appends an address as the standard library writes it, in a fraction of its time for IPv4.
pub fn push_ip(ip: IpAddr, text: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(v4) => {
            // Behind the last octet, too; that point is left out.
            let (mut written, mut length) = ([b'.'; LONGEST_IPV4], 0);
            for octet in v4.octets() {
                for scale in [100, 10, 1] {
                    if octet >= scale || scale == 1 {
                        written[length] = b'0' + octet / scale % 10;
                        length += 1;
                    }
                }
                length += 1;
            }
            text.extend_from_slice(&written[..length - 1]);
        }
        // Writing to memory cannot fail.
        IpAddr::V6(v6) => drop(write!(text, "{v6}")),
    }
}

/// Bytes of `255.255.255.255` and a point.
const LONGEST_IPV4: usize = 16;
