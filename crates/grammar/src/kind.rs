//! What a key takes: words, numbers within bounds, lengths of time, sizes, texts of a grammar.
//!
//! A kind is a type. It reads a value, says what is wrong with it, and describes itself to a schema, so bounds and words
//! are in one place.

use std::marker::PhantomData;
use std::ops::Deref;

use super::diagnostic::{Findings, grouped, suggest};
use super::document::{Located, TomlEntry, TomlValue};
use super::duration::Duration;
use super::schema::Schema;
use super::size::Size;
use super::syntax::Syntax;
use super::table::{FromEntry, FromNode, KeyType, SecretText};
use tollgate_bucket::Span;

/// A kind of value.
pub trait Kind {
    /// The value as the file has it.
    type Raw: FromNode;
    /// The value as the program has it.
    type Value;

    /// What a schema says of it.
    fn schema() -> Schema;

    /// The value; `None` after its mistake was reported.
    fn check(given: &Located<Self::Raw>, f: &mut Findings) -> Option<Self::Value>;
}

/// A value as the file has it, of which its kind says what it may be.
pub struct Given<K: Kind>(Located<K::Raw>);

/// A key that may be absent.
pub type Key<K> = Option<Given<K>>;

/// What is there, and valid.
pub trait Checked {
    /// The value as the program has it.
    type Value;

    /// The value; `None` if the key is absent, or after its mistake was reported.
    fn checked(&self, f: &mut Findings) -> Option<Self::Value>;
}

impl<K: Kind> Deref for Given<K> {
    type Target = Located<K::Raw>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Kind> Given<K> {
    /// The value; `None` after its mistake was reported.
    pub fn checked(&self, f: &mut Findings) -> Option<K::Value> {
        K::check(&self.0, f)
    }
}

impl<K: Kind> Checked for Key<K> {
    type Value = K::Value;

    fn checked(&self, f: &mut Findings) -> Option<K::Value> {
        self.as_ref()?.checked(f)
    }
}

impl<K: Kind> FromEntry for Given<K> {
    fn entry_type() -> KeyType {
        K::Raw::key_type(K::schema())
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        Some(Self(node.with(K::Raw::from_node(node, f)?)))
    }
}

/// Any text. It is checked later, together with other keys.
pub enum Free {}

impl Kind for Free {
    type Raw = String;
    type Value = String;

    fn schema() -> Schema {
        Schema::text()
    }

    fn check(given: &Located<String>, _: &mut Findings) -> Option<String> {
        Some(given.value.clone())
    }
}

/// `true` or `false`.
pub enum Switch {}

impl Kind for Switch {
    type Raw = bool;
    type Value = bool;

    fn schema() -> Schema {
        Schema::boolean()
    }

    fn check(given: &Located<bool>, _: &mut Findings) -> Option<bool> {
        Some(given.value)
    }
}

/// A text that may be `${...}`.
pub enum Secret {}

impl Kind for Secret {
    type Raw = SecretText;
    type Value = ();

    fn schema() -> Schema {
        Schema::string()
    }

    fn check(_: &Located<SecretText>, _: &mut Findings) -> Option<()> {
        Some(())
    }
}

/// A list of words, one of which is chosen: see [`words!`](crate::words).
pub trait Words {
    /// What a word means.
    type Value: Copy + 'static;
    /// The words, in the order in which hints list them.
    const WORDS: &'static [(&'static str, Self::Value)];
}

/// Declares a list of words and what each means.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $vis:vis $name:ident: $value:ty { $($word:literal => $meaning:expr,)+ }) => {
        $(#[$about])*
        $vis enum $name {}

        impl $crate::kind::Words for $name {
            type Value = $value;
            const WORDS: &'static [(&'static str, $value)] = &[$(($word, $meaning)),+];
        }
    };
}

/// One of several words.
pub struct Word<W>(PhantomData<W>);

impl<W: Words> Kind for Word<W> {
    type Raw = String;
    type Value = W::Value;

    fn schema() -> Schema {
        Schema::words(W::WORDS.iter().map(|(word, _)| *word).collect())
    }

    fn check(given: &Located<String>, f: &mut Findings) -> Option<W::Value> {
        let text = given.value.as_str();
        if let Some((_, meaning)) = W::WORDS.iter().find(|(word, _)| *word == text) {
            return Some(*meaning);
        }
        let words = W::WORDS.iter().map(|(word, _)| *word);
        f.error(&given.spot, format!("unknown value `{text}`"), suggest(text, words));
        None
    }
}

/// A text of the grammar `G`.
pub struct Text<G>(PhantomData<G>);

impl<G: Syntax> Kind for Text<G> {
    type Raw = String;
    type Value = G;

    fn schema() -> Schema {
        G::schema()
    }

    fn check(given: &Located<String>, f: &mut Findings) -> Option<G> {
        G::read(given, f)
    }
}

/// The pattern of texts that are checked together with other keys.
pub trait TextPattern {
    /// As a regular expression.
    fn pattern() -> String;
}

/// A text that fits the pattern `P` and is checked later, together with other keys.
pub struct Like<P>(PhantomData<P>);

impl<P: TextPattern> Kind for Like<P> {
    type Raw = String;
    type Value = String;

    fn schema() -> Schema {
        Schema::pattern(P::pattern())
    }

    fn check(given: &Located<String>, _: &mut Findings) -> Option<String> {
        Some(given.value.clone())
    }
}

/// A value of any type. It is checked later, together with other keys.
pub enum Anything {}

impl Kind for Anything {
    type Raw = TomlValue;
    type Value = ();

    fn schema() -> Schema {
        Schema::default()
    }

    fn check(_: &Located<TomlValue>, _: &mut Findings) -> Option<()> {
        Some(())
    }
}

/// A whole number from `LEAST` to `MOST`.
pub struct Whole<T, const LEAST: i64, const MOST: i64>(PhantomData<T>);

impl<T: TryFrom<i64>, const LEAST: i64, const MOST: i64> Kind for Whole<T, LEAST, MOST> {
    type Raw = i64;
    type Value = T;

    fn schema() -> Schema {
        Schema::whole(LEAST, MOST)
    }

    fn check(given: &Located<i64>, f: &mut Findings) -> Option<T> {
        let value = (LEAST..=MOST).contains(&given.value).then(|| T::try_from(given.value).ok()).flatten();
        if value.is_none() {
            f.error(
                &given.spot,
                format!("{} is out of range", given.spot.text()),
                format!("{} to {}", grouped(LEAST.unsigned_abs()), grouped(MOST.unsigned_abs())),
            );
        }
        value
    }
}

/// A whole number from `LEAST` to `MOST`, or a list where the file is expanded before it is read.
pub struct Wholes<T, const LEAST: i64, const MOST: i64>(PhantomData<T>);

impl<T: TryFrom<i64>, const LEAST: i64, const MOST: i64> Kind for Wholes<T, LEAST, MOST> {
    type Raw = i64;
    type Value = T;

    fn schema() -> Schema {
        Schema::wholes(LEAST, MOST)
    }

    fn check(given: &Located<i64>, f: &mut Findings) -> Option<T> {
        Whole::<T, LEAST, MOST>::check(given, f)
    }
}

/// A number from `LEAST` thousandths to 1.
pub enum Fraction<const LEAST: u32> {}

impl<const LEAST: u32> Kind for Fraction<LEAST> {
    type Raw = f64;
    type Value = f64;

    fn schema() -> Schema {
        Schema::number(f64::from(LEAST) / 1000.0, 1.0)
    }

    fn check(given: &Located<f64>, f: &mut Findings) -> Option<f64> {
        let least = f64::from(LEAST) / 1000.0;
        if (least..=1.0).contains(&given.value) {
            return Some(given.value);
        }
        let hint = if LEAST == 0 { "0.0 to 1.0".to_owned() } else { format!("{least} to 1.0") };
        f.error(&given.spot, format!("{} is out of range", given.spot.text()), hint);
        None
    }
}

/// A share, 0.0 to 1.0, of the number `WHOLE`, which is small enough to be exact as a float.
pub enum Share<const WHOLE: u32> {}

impl<const WHOLE: u32> Kind for Share<WHOLE> {
    type Raw = f64;
    type Value = u32;

    fn schema() -> Schema {
        Fraction::<0>::schema()
    }

    fn check(given: &Located<f64>, f: &mut Findings) -> Option<u32> {
        let share = Fraction::<0>::check(given, f)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to `WHOLE`")]
        Some((share * f64::from(WHOLE)).round() as u32)
    }
}

/// A length of time from `LEAST` to `MOST` milliseconds.
pub enum Lasting<const LEAST: u64, const MOST: u64> {}

impl<const LEAST: u64, const MOST: u64> Kind for Lasting<LEAST, MOST> {
    type Raw = String;
    type Value = Span;

    fn schema() -> Schema {
        Duration::schema()
    }

    fn check(given: &Located<String>, f: &mut Findings) -> Option<Span> {
        let Duration(span) = Duration::read(given, f)?;
        let (least, most) = (Span::from_millis(LEAST), Span::from_millis(MOST));
        if (least..=most).contains(&span) {
            return Some(span);
        }
        let hint = format!("{} to {}", Duration(least), Duration(most));
        f.error(&given.spot, format!("`{}` is out of range", given.value), hint);
        None
    }
}

/// A number of bytes from `LEAST` to `MOST`.
pub enum Bytes<const LEAST: u64, const MOST: u64> {}

impl<const LEAST: u64, const MOST: u64> Kind for Bytes<LEAST, MOST> {
    type Raw = String;
    type Value = usize;

    fn schema() -> Schema {
        Size::schema()
    }

    fn check(given: &Located<String>, f: &mut Findings) -> Option<usize> {
        let Size(bytes) = Size::read(given, f)?;
        let is_within = (LEAST..=MOST).contains(&bytes);
        if !is_within {
            let hint = format!("{} to {}", Size(LEAST), Size(MOST));
            f.error(&given.spot, format!("`{}` is out of range", given.value), hint);
        }
        usize::try_from(bytes).ok().filter(|_| is_within)
    }
}

/// A number of bytes, or `off` for none.
pub enum Buffer<const LEAST: u64, const MOST: u64> {}

impl<const LEAST: u64, const MOST: u64> Kind for Buffer<LEAST, MOST> {
    type Raw = String;
    type Value = usize;

    fn schema() -> Schema {
        Schema::pattern(format!("^({}|off)$", Size::PATTERN))
    }

    fn check(given: &Located<String>, f: &mut Findings) -> Option<usize> {
        match given.value.as_str() {
            "off" => Some(0),
            _ => Bytes::<LEAST, MOST>::check(given, f),
        }
    }
}
