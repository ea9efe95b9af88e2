//! Lines of access logs, in each format and without one.
//!
//! No line causes a panic, what is read of one is a part of it, and a known format reads no less than the search for one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::replay::line::{AccessLogFormat, LogLineFormat, parse};

fuzz_target!(|line: &[u8]| {
    let found = parse(line, None);
    for format in [AccessLogFormat::Combined, AccessLogFormat::Common, AccessLogFormat::Json, AccessLogFormat::Haproxy] {
        let read = parse(line, Some(&LogLineFormat::Known(format)));
        if let (Ok((request, found)), Ok((again, _))) = (&found, &read)
            && *found == format
        {
            assert_eq!(request, again);
        }
        if let Ok((request, _)) = read {
            assert!((100..1000).contains(&request.status));
            assert_eq!(request.client.ip(), request.client.ip().map(|ip| ip.to_canonical()));
            // A byte that is no UTF-8 becomes three.
            assert!(request.method.len() + request.target.len() <= 3 * line.len());
        }
    }
});
