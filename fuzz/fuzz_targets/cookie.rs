//! Lines of `Cookie`, each one of the input, in which `@` stands for a token of alice and `&` for one of bob.
//!
//! Stripping leaves no cookie of ours and makes nothing up. Only alice and bob are ever known, and neither by a token
//! with a flipped bit. The first two bytes choose the bit.

#![no_main]

use std::sync::{Arc, LazyLock};

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use tollgate::config::{Sources, load};
use tollgate::policy::account::Account;
use tollgate::policy::{OwnerCookie, VerifiedCookie};
use tollgate::time::Time;

const NOW: Time = Time::from_nanos(1_763_700_000 * 1_000_000_000);

struct Fixture {
    devices: Arc<dyn OwnerCookie>,
    alice: String,
    bob: String,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let keys = ["newest-newest-newest-newest-newest", "oldest-oldest-oldest-oldest-oldest"];
    let token = |devices: &dyn OwnerCookie, name: &str| {
        let claim = devices.read(&HeaderMap::new(), NOW).claim("app", &account(name));
        let set = claim.grant(NOW, false).unwrap();
        set.to_str().unwrap().split([';', '=']).nth(1).unwrap().to_owned()
    };
    let (devices, older) = (made_under(&keys), made_under(&keys[1..]));
    Fixture { alice: token(&*devices, "alice"), bob: token(&*older, "bob"), devices }
});

/// What a gate makes of these keys, the newest first.
fn made_under(keys: &[&str]) -> Arc<dyn OwnerCookie> {
    let text = format!(
        "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
         [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 5m\"\n\
         [device]\ncookie = \"dev\"\nsecret = \"{}\"\n",
        keys.join("\\n")
    );
    load(&Sources::from_text("devices", &text)).config.unwrap().policy.owner_cookie.unwrap()
}

fuzz_target!(|input: &[u8]| {
    let Some((&[high, low], input)) = input.split_first_chunk() else { return };
    let mut headers = HeaderMap::new();
    for line in filled_in(input).split(|&byte| byte == b'\n').take(100) {
        if let Ok(line) = HeaderValue::from_bytes(line) {
            headers.append(COOKIE, line);
        }
    }
    read(&headers);
    strip(headers);
    flip(usize::from(u16::from_be_bytes([high, low])));
});

fn account(name: &str) -> Account {
    Account::fold(name.as_bytes())
}

fn filled_in(input: &[u8]) -> Vec<u8> {
    let pieces = input.iter().map(|byte| match byte {
        b'@' => FIXTURE.alice.as_bytes(),
        b'&' => FIXTURE.bob.as_bytes(),
        _ => std::slice::from_ref(byte),
    });
    pieces.collect::<Vec<_>>().concat()
}

/// An account is known only by its token; after a sign-in it is known, beside at most four others.
fn read(headers: &HeaderMap) {
    let devices = &FIXTURE.devices;
    let carried = devices.read(headers, NOW);
    let known = |carried: &dyn VerifiedCookie, name| carried.owner("app", &account(name));
    let lines = || headers.get_all(COOKIE).iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
    for (name, token) in [("alice", &FIXTURE.alice), ("bob", &FIXTURE.bob)] {
        assert!(known(&*carried, name).is_none() || lines().any(|line| line.contains(token.as_str())));
        assert!(carried.owner("other", &account(name)).is_none());
    }
    assert!(known(&*carried, "carol").is_none());

    let set = carried.claim("app", &account("alice")).grant(NOW, true).unwrap();
    let cookie = set.to_str().unwrap().split(';').next().unwrap();
    assert!(cookie.split('.').count() <= 5);
    let after = devices.read(&HeaderMap::from_iter([(COOKIE, cookie.parse().unwrap())]), NOW);
    let (before, now) = (known(&*carried, "alice"), known(&*after, "alice"));
    assert!(now.is_some() && (before.is_none() || before == now), "the same device");
    assert_eq!(known(&*after, "bob"), known(&*carried, "bob"));
}

fn strip(mut headers: HeaderMap) {
    let before = lines(&headers);
    strip_ours(&mut headers);
    let after = lines(&headers);
    let mut rest = before.concat().into_iter();
    assert!(after.concat().iter().all(|byte| rest.any(|other| other == *byte)), "something is made up");
    let names = |lines: &[Vec<u8>]| {
        let pairs = lines.iter().flat_map(|line| line.split(|&byte| byte == b';'));
        let named = pairs.filter(|pair| pair.contains(&b'='));
        let names = named.map(|pair| pair.split(|&byte| byte == b'=').next().unwrap().trim_ascii().to_vec());
        names.collect::<Vec<_>>()
    };
    let ours = |name: &Vec<u8>| name == b"dev" || name == b"__Host-dev";
    let attribute = |name: &Vec<u8>| name.starts_with(b"$");
    assert!(!names(&after).iter().any(ours), "something of ours is left");
    let others =
        |lines| names(lines).into_iter().filter(|name| !ours(name) && !attribute(name)).collect::<Vec<_>>();
    assert_eq!(others(&after), others(&before), "something else is gone");
    strip_ours(&mut headers);
    assert_eq!(lines(&headers), after, "once is enough");
}

fn strip_ours(headers: &mut HeaderMap) {
    if let Some(others) = FIXTURE.devices.others(headers) {
        headers.remove(COOKIE);
        for line in others {
            headers.append(COOKIE, line);
        }
    }
}

fn lines(headers: &HeaderMap) -> Vec<Vec<u8>> {
    headers.get_all(COOKIE).iter().map(|line| line.as_bytes().to_vec()).collect()
}

fn flip(bit: usize) {
    for (name, token) in [("alice", &FIXTURE.alice), ("bob", &FIXTURE.bob)] {
        let mut line = format!("dev={token}").into_bytes();
        let bit = bit % (token.len() * 8);
        line[4 + bit / 8] ^= 1 << (bit % 8);
        let Ok(line) = HeaderValue::from_bytes(&line) else { continue };
        let carried = FIXTURE.devices.read(&HeaderMap::from_iter([(COOKIE, line)]), NOW);
        assert!(carried.owner("app", &account(name)).is_none(), "bit {bit}");
    }
}
