//! Lists of texts. A list of one text can be written as that text alone.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Deref;

use super::diagnostic::{Findings, Spot};
use super::document::{Located, TomlEntry, TomlValue};
use super::kind::{Free, Kind};
use super::schema::Schema;
use super::table::{FromEntry, KeyType, string, wrong_type};

/// A text or a list of texts, with the spot of the whole.
#[derive(Debug)]
pub struct StringList {
    /// The texts.
    pub value: Vec<Located<String>>,
    /// The whole.
    pub spot: Spot,
    /// Whether the list is written empty. A list whose items have a wrong type has been reported already.
    pub is_empty: bool,
}

/// A text of the kind `K`, or a list of such. The texts are as written.
pub struct List<K = Free>(StringList, PhantomData<K>);

impl<K> Deref for List<K> {
    type Target = StringList;

    fn deref(&self) -> &StringList {
        &self.0
    }
}

impl<K: Kind<Raw = String>> FromEntry for List<K> {
    fn entry_type() -> KeyType {
        KeyType::Value(Box::new(Schema::one_or_list(K::schema())))
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        Some(Self(strings(node, f), PhantomData))
    }
}

fn strings(node: &Located<TomlValue>, f: &mut Findings) -> StringList {
    let items = match &node.value {
        TomlValue::List(items) => items.as_slice(),
        TomlValue::String(_) => std::slice::from_ref(node),
        _ => {
            wrong_type::<()>(node, "a string or a list of strings", f);
            &[]
        }
    };
    let value = items.iter().filter_map(|item| string(item, f)).collect();
    let is_empty = matches!(&node.value, TomlValue::List(items) if items.is_empty());
    StringList { value, spot: node.spot.clone(), is_empty }
}

/// The entries of a list without repetitions, which are reported.
pub fn distinct<'l>(list: Option<&'l StringList>, f: &mut Findings) -> Vec<&'l Located<String>> {
    let mut seen = HashSet::new();
    let items = list.map_or(&[][..], |list| &list.value).iter();
    let fresh = items.filter(|item| {
        let fresh = seen.insert(item.value.as_str());
        if !fresh {
            f.error(&item.spot, format!("`{}` is listed twice", item.value), "");
        }
        fresh
    });
    fresh.collect()
}
