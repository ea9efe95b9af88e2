//! A body of any bytes: how many attempts it makes.
//!
//! Neither blanks around it nor a byte order mark before it make it cheaper, and no body costs more than it has bytes.

#![no_main]

use http::HeaderMap;
use libfuzzer_sys::fuzz_target;
use tollgate::policy::count::Count;

fuzz_target!(|body: &[u8]| {
    for count in [Count::Items, Count::Element("methodName".into()), Count::Element("a".into())] {
        let attempts = count.of(body);
        assert!(
            attempts.is_err() || usize::try_from(attempts.unwrap_or(0)).is_ok_and(|n| n <= body.len().max(1))
        );
        let marked = [b"\xef\xbb\xbf \n", body].concat();
        assert_eq!(count.of(&marked), attempts, "after a mark");
        if let (Ok(before), Ok(after)) = (attempts, count.of(&[body, b"\n"].concat())) {
            assert_eq!(before, after, "before a line feed");
        }
    }
    let (fields, headers) = (Count::Fields(vec!["a".into()]), HeaderMap::new());
    let _ = fields.of_request(&headers, std::str::from_utf8(body).ok(), body);
});
