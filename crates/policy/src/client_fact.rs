//! Facts of a client in addition to its address: a limit may have a bucket for each value, or other rates for some.
//!
//! Each is declared once, here: its word in keys, its texts, and where an attempt has it. What an address tells is looked
//! up by a module that the policy knows as [`ClientLookup`].

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use super::attempt::{Client, TlsClient};

/// A fact that a key may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFact {
    /// The autonomous system of the client's address.
    Asn,
    /// The name in the client's certificate.
    Cert,
    /// The fingerprint of the client's first message in TLS.
    Ja4,
}

/// The texts of a fact.
#[derive(Debug)]
pub struct FactWords {
    /// Its word in keys.
    pub word: &'static str,
    /// What stands for its value in the list of all kinds of keys.
    pub value: &'static str,
    /// Whose buckets they are, in a worst case.
    pub whose: &'static str,
    /// Which clients have none, there.
    pub without: &'static str,
    /// Why a value is none.
    pub mistake: &'static str,
}

/// The value of a fact.
pub(super) enum FactValue<'a> {
    Number(u32),
    Text(&'a str),
}

/// What is known of a client by its address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddressFacts {
    /// The number of its autonomous system.
    pub asn: Option<u32>,
    /// Its country.
    pub country: Option<Country>,
}

/// One of them, for which a limit may have another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressFact {
    /// The number of an autonomous system.
    Asn(u32),
    /// A country.
    Country(Country),
}

/// Two letters of ISO 3166-1, in upper case.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Country([u8; 2]);

/// Finds out what is known of a client by its address.
pub trait ClientLookup: Any + fmt::Debug + Send + Sync {
    /// What is known.
    fn facts(&self, client: Client) -> AddressFacts;

    /// Whether both say the same.
    fn is_same(&self, other: &dyn ClientLookup) -> bool;
}

impl PartialEq for dyn ClientLookup {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl ClientFact {
    /// All of them, in the order in which texts list them.
    pub const ALL: [Self; 3] = [Self::Asn, Self::Cert, Self::Ja4];

    /// The fact of this word.
    #[must_use]
    pub fn of_word(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.words().word.as_bytes() == word)
    }

    /// Its texts.
    #[must_use]
    pub fn words(self) -> &'static FactWords {
        match self {
            Self::Asn => &FactWords {
                word: "asn",
                value: "NUMBER",
                whose: "from one autonomous system",
                without: "where unknown",
                mistake: "the value of asn is not a number, as in asn:64500",
            },
            Self::Cert => &FactWords {
                word: "cert",
                value: "NAME",
                whose: "for one certificate",
                without: "without one",
                mistake: "the value of cert is not the name of a certificate",
            },
            Self::Ja4 => &FactWords {
                word: "ja4",
                value: "FINGERPRINT",
                whose: "for one TLS fingerprint",
                without: "without one",
                mistake: "the value of ja4 is not a fingerprint, as in ja4:t13d1516h2_8daaf6152771_e5627efa2ab1",
            },
        }
    }

    /// Whether a client sends what it likes.
    #[must_use]
    pub fn is_chosen_by_clients(self) -> bool {
        self == Self::Ja4
    }

    /// Whether its values may hold commas.
    pub(super) fn may_hold_commas(self) -> bool {
        self == Self::Cert
    }

    /// Its kind in the hash of a key.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Asn => b's',
            Self::Cert => b'q',
            Self::Ja4 => b'j',
        }
    }

    /// What a client has of it.
    pub(super) fn of<'a>(self, address: AddressFacts, tls: Option<&'a TlsClient>) -> Option<FactValue<'a>> {
        match self {
            Self::Asn => address.asn.map(FactValue::Number),
            Self::Cert => tls?.certificate.as_deref().map(FactValue::Text),
            Self::Ja4 => tls?.fingerprint.as_deref().map(FactValue::Text),
        }
    }

    /// Puts a value that an operator names where a client has it; `None` if it is none.
    pub(super) fn put(self, value: &[u8], address: &mut AddressFacts, tls: &mut TlsClient) -> Option<()> {
        let text = std::str::from_utf8(value).ok()?;
        match self {
            Self::Asn => address.asn = Some(text.parse().ok()?),
            Self::Cert => tls.certificate = Some(text.to_owned()).filter(|name| !name.is_empty()),
            Self::Ja4 => {
                tls.fingerprint = Some(text.to_ascii_lowercase()).filter(|text| text.len() == JA4_LEN);
            }
        }
        self.of(*address, Some(tls)).map(|_| ())
    }
}

impl AddressFacts {
    /// Those for which a limit may have another rate, the narrowest first.
    pub(super) fn iter(self) -> impl Iterator<Item = AddressFact> {
        self.asn.map(AddressFact::Asn).into_iter().chain(self.country.map(AddressFact::Country))
    }

    /// The number of the network that the address is in.
    pub(super) fn network(self) -> Option<u32> {
        self.asn
    }

    /// These, and the others where nothing is known.
    pub(super) fn or(self, other: Self) -> Self {
        Self { asn: self.asn.or(other.asn), country: self.country.or(other.country) }
    }
}

/// A text is not a country of two letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a country is two letters, as in DE")]
pub struct NoCountry;

impl FromStr for Country {
    type Err = NoCountry;

    fn from_str(text: &str) -> Result<Self, NoCountry> {
        match text.as_bytes() {
            [one, two] if one.is_ascii_alphabetic() && two.is_ascii_alphabetic() => {
                Ok(Self([*one, *two].map(|letter| letter.to_ascii_uppercase())))
            }
            _ => Err(NoCountry),
        }
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([one, two]) = self;
        write!(f, "{}{}", char::from(*one), char::from(*two))
    }
}

/// Three parts of 10, 12 and 12 letters.
const JA4_LEN: usize = 36;
