//! Configuration in TOML: tables whose keys are declared once, and every mistake with its place.
//!
//! A declaration ([`tables!`]) names a key, its [kind](kind::Kind) and what people are told of it. From it come the reading of
//! the file, the messages about mistakes, and a [schema]. The purpose of a key, and the meaning of
//! several keys together, are left to the crate that declares them.

extern crate self as tollgate_grammar;

pub mod byte_rate;
pub mod diagnostic;
pub mod document;
pub mod duration;
pub mod kind;
pub mod line_starts;
pub mod list;
pub mod name;
pub mod rate;
pub mod record;
pub mod schema;
pub mod size;
mod syntax;
pub mod table;

pub use self::diagnostic::{Diagnostic, Findings, Severity, SourceKind, SourceText, Spot};
pub use self::document::Located;
pub use self::kind::{Checked, Given};
pub use self::list::{List, StringList};
pub use self::syntax::{Mistake, Syntax, leading_number, refuse};
pub use self::table::{RawItem, RawKey, RawNamed, RawTable};
