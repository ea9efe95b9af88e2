//! Where an address comes from: its autonomous system and its country, as files in MaxMind's format say.
//!
//! The format is [MaxMind DB 2.0](https://maxmind.github.io/MaxMind-DB/); the fields are those of GeoLite2 and GeoIP2, which
//! DB-IP has too, or those of IPinfo.
//! A file is read as a whole and checked once, so a look-up reads memory. If an address has an embedded IPv4 address,
//! that one is looked up. An address without an entry, or whose entry cannot be read, is unknown.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;

use serde::de::{Deserialize, Deserializer, Visitor};

use maxminddb::{MaxMindDbError, PathElement, Reader, WithinOptions};

use super::attempt::Client;
use super::client_fact::{AddressFacts, ClientLookup, Country};
use super::network::embedded_ipv4;

/// The files.
#[derive(Debug, Default, PartialEq)]
pub struct Geo {
    /// The autonomous systems of addresses.
    pub asn: Option<Database>,
    /// Their countries.
    pub country: Option<Database>,
}

/// A file.
pub struct Database(Reader<Vec<u8>>);

/// What a file is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// Autonomous systems.
    Asn,
    /// Countries.
    Country,
}

/// Why a file is no use.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// It is damaged, or no such file at all.
    #[error("it is not a file in MaxMind's format, or damaged")]
    Damaged(#[from] MaxMindDbError),
    /// It is about something else.
    #[error("it holds no `{0}`")]
    Other(&'static str),
}

impl ClientLookup for Geo {
    fn facts(&self, client: Client) -> AddressFacts {
        let Some(ip) = client.known_ip() else { return AddressFacts::default() };
        let ip = embedded_ipv4(ip).map_or(ip, IpAddr::V4);
        AddressFacts {
            asn: self.asn.as_ref().and_then(|database| database.asn(ip)),
            country: self.country.as_ref().and_then(|database| database.country(ip)),
        }
    }

    fn is_same(&self, other: &dyn ClientLookup) -> bool {
        (other as &dyn Any).downcast_ref::<Self>() == Some(self)
    }
}

impl Database {
    /// Reads a file, and checks all of it: a damaged one is an error here and no wrong answer later.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn new(bytes: Vec<u8>, kind: DatabaseKind) -> Result<Self, DatabaseError> {
        let database = Self(Reader::from_source(bytes)?);
        database.0.verify()?;
        let networks = database.0.networks(WithinOptions::default())?;
        let mut sampled = networks.take(SAMPLED).filter_map(Result::ok);
        let (has_some, field) = match kind {
            DatabaseKind::Asn => (sampled.any(|found| asn_of(&found).is_some()), ASN),
            DatabaseKind::Country => (sampled.any(|found| country_of(&found).is_some()), ISO_CODE),
        };
        if has_some { Ok(database) } else { Err(DatabaseError::Other(field)) }
    }

    fn asn(&self, ip: IpAddr) -> Option<u32> {
        asn_of(&self.0.lookup(ip).ok()?)
    }

    fn country(&self, ip: IpAddr) -> Option<Country> {
        country_of(&self.0.lookup(ip).ok()?)
    }
}

type Found<'d> = maxminddb::LookupResult<'d, Vec<u8>>;

fn asn_of(found: &Found<'_>) -> Option<u32> {
    let read = |name| found.decode_path::<AsnValue>(&[PathElement::Key(name)]).ok()?;
    [ASN, "asn"].into_iter().find_map(|name| read(name)?.0)
}

fn country_of(found: &Found<'_>) -> Option<Country> {
    let read = |path: &[PathElement<'_>]| found.decode_path::<&str>(path).ok()??.parse().ok();
    let of_maxmind = [PathElement::Key("country"), PathElement::Key(ISO_CODE)];
    read(&of_maxmind)
        .or_else(|| ["country_code", "country"].iter().find_map(|name| read(&[PathElement::Key(name)])))
}

/// The number of an autonomous system as makers of files write it: an integer of any width, or a text as in `AS15169`.
struct AsnValue(Option<u32>);

impl<'de> Deserialize<'de> for AsnValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsnVisitor).map(Self)
    }
}

struct AsnVisitor;

impl Visitor<'_> for AsnVisitor {
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of an autonomous system")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<u32>, E> {
        Ok(u32::try_from(number).ok())
    }

    fn visit_u128<E>(self, number: u128) -> Result<Option<u32>, E> {
        Ok(u32::try_from(number).ok())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<u32>, E> {
        Ok(u32::try_from(number).ok())
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<u32>, E> {
        let digits = text
            .get(..2)
            .filter(|word| word.eq_ignore_ascii_case("as"))
            .map_or(text, |word| &text[word.len()..]);
        Ok(digits.parse().ok())
    }
}

/// By the time when it was made, its kind and its size: two files that agree in all of these are taken for the same.
impl PartialEq for Database {
    fn eq(&self, other: &Self) -> bool {
        self.0.metadata() == other.0.metadata()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.0.metadata().database_type)
    }
}

const ASN: &str = "autonomous_system_number";
const ISO_CODE: &str = "iso_code";
/// Networks that are searched for the field: some have none.
const SAMPLED: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `tests/geo/make.py`.
    fn file(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/tests/geo/{name}.mmdb", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    fn geo() -> Geo {
        Geo {
            asn: Some(Database::new(file("asn"), DatabaseKind::Asn).unwrap()),
            country: Some(Database::new(file("country"), DatabaseKind::Country).unwrap()),
        }
    }

    fn of(geo: &Geo, ip: &str) -> (Option<u32>, Option<Country>) {
        let AddressFacts { asn, country } = geo.facts(Client::from_ip(ip.parse().unwrap()));
        (asn, country)
    }

    #[test]
    fn an_address_has_a_system_and_a_country_or_none() {
        let (geo, xx) = (geo(), "XX".parse().ok());
        assert_eq!(of(&geo, "127.0.3.1"), (Some(64_500), xx));
        assert_eq!(of(&geo, "::ffff:127.0.3.1"), (Some(64_500), xx));
        assert_eq!(of(&geo, "2001:db8::1"), (Some(64_501), "yy".parse().ok()));
        assert_eq!(of(&geo, "64:ff9b::203.0.113.9"), of(&geo, "203.0.113.9"), "the address inside");
        assert_eq!(of(&geo, "203.0.113.9"), (Some(64_502), None));
        assert_eq!(of(&geo, "192.0.2.1"), (None, None));
        assert_eq!(geo.facts(Client::UnixSocket), AddressFacts::default());
        let behind = Client::BehindProxy([127, 0, 3, 1].into());
        assert_eq!(geo.facts(behind), AddressFacts::default(), "a proxy's network is not its clients'");
    }

    #[test]
    fn files_of_other_makers_say_the_same() {
        let read = |name: &str| {
            let [asn, country] = [DatabaseKind::Asn, DatabaseKind::Country]
                .map(|kind| Database::new(file(name), kind).map_err(|error| (name.to_owned(), error)).ok());
            of(&Geo { asn, country }, "127.0.3.1")
        };
        let xx = "XX".parse().ok();
        assert_eq!(read("asn-u16"), (Some(64_500), None));
        assert_eq!(read("asn-u64"), (Some(64_500), None));
        assert_eq!(read("asn-i32"), (Some(64_500), None));
        assert_eq!(read("ipinfo-lite"), (Some(64_500), xx));
        assert_eq!(read("ipinfo-country-asn"), (Some(64_500), xx));
        assert_eq!(read("dbip-city"), (None, xx));
    }

    #[test]
    fn a_file_that_is_damaged_or_about_something_else_is_refused() {
        let read = |bytes, kind| Database::new(bytes, kind).map_err(|error| error.to_string());
        let other = read(file("asn"), DatabaseKind::Country);
        assert_eq!(other.unwrap_err(), "it holds no `iso_code`");
        let whole = file("country");
        for bytes in
            [Vec::new(), b"<html>".to_vec(), whole[..whole.len() - 40].to_vec(), whole[200..].to_vec()]
        {
            assert!(read(bytes, DatabaseKind::Country).unwrap_err().contains("damaged"));
        }
    }

    /// Flipped bytes make an error or unknown addresses, and never a panic.
    #[test]
    fn a_damaged_file_never_panics() {
        let whole = file("country");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            let Ok(database) = Database::new(bytes, DatabaseKind::Country) else { continue };
            let geo = Geo { asn: None, country: Some(database) };
            for ip in ["127.0.3.1", "2001:db8::1", "203.0.113.9", "255.255.255.255"] {
                let _ = of(&geo, ip);
            }
        }
    }
}
