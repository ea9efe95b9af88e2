//! The fields that are looked up in bodies, and what one search of a body finds for all of them.
//!
//! [`body`](super::body) searches; [`lookup`](super::lookup) knows which module needs which of the fields.

use smallvec::SmallVec;

use super::member::FoldedName;
use super::name::FieldName;
use super::{Field, TooManyValues, Values};

/// The fields that are looked up in bodies; their positions are slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BodyFields {
    fields: Vec<BodyField>,
    /// For each slot of a name those of the fields with this name in a form.
    by_name: Vec<SmallVec<[usize; 1]>>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyField {
    field: Field,
    /// The members that lead to it in a document.
    pub(super) members: Vec<FoldedName>,
}

impl BodyFields {
    /// Those among these fields. `names` are their names in a form, and may be more.
    pub(super) fn of<'f>(fields: impl Iterator<Item = &'f Field>, names: &[FieldName]) -> Self {
        let mut found = Self { fields: Vec::new(), by_name: vec![SmallVec::new(); names.len()] };
        for field in fields.filter(|field| field.is_in_body()) {
            if found.slot_of(field).is_some() {
                continue;
            }
            let slot = field.in_query().and_then(|name| names.binary_search(&name).ok());
            let Some(of_name) = slot.and_then(|slot| found.by_name.get_mut(slot)) else { continue };
            of_name.push(found.fields.len());
            let members = field.members().unwrap_or_default();
            let members = members.iter().map(|member| FoldedName::new(member)).collect();
            found.fields.push(BodyField { field: field.clone(), members });
        }
        found
    }

    pub(super) fn slot_of(&self, field: &Field) -> Option<usize> {
        self.fields.iter().position(|known| known.field == *field)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &BodyField)> {
        self.fields.iter().enumerate()
    }

    pub(super) fn at(&self, slot: usize) -> Option<&BodyField> {
        self.fields.get(slot)
    }

    /// The slots of the fields with this name in a form.
    pub(super) fn with_name(&self, name: usize) -> &[usize] {
        self.by_name.get(name).map_or(&[], |slots| slots)
    }

    /// Nothing found yet.
    pub(super) fn none_found(&self) -> FoundInBody {
        FoundInBody { slots: self.fields.iter().map(|_| Ok(Values::default())).collect() }
    }
}

impl BodyField {
    pub(super) fn is_of_form(&self) -> bool {
        matches!(self.field, Field::Form(_))
    }
}

/// What a body holds for each of the [`BodyFields`]. Its `Debug` form hides it, and it is overwritten at its end: there
/// are passwords among it.
#[derive(Default)]
pub(crate) struct FoundInBody {
    slots: Vec<Result<Values, TooManyValues>>,
}

impl FoundInBody {
    /// Adds a value. After too many nothing more is kept.
    pub(super) fn add(&mut self, slot: usize, value: &[u8]) {
        if let Some(found) = self.slots.get_mut(slot)
            && let Ok(values) = found
            && let Err(error) = values.add(value)
        {
            values.wipe();
            *found = Err(error);
        }
    }

    /// Whether a further value makes a difference.
    pub(super) fn takes_more(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(Result::is_ok)
    }

    /// The body names this field too often to read it each time.
    pub(super) fn has_too_many(&mut self, slot: usize) {
        if let Some(found) = self.slots.get_mut(slot) {
            *found = Err(TooManyValues);
        }
    }

    /// The body is too much work: what it holds is unknown.
    pub(super) fn all_have_too_many(&mut self) {
        self.slots.fill(Err(TooManyValues));
    }

    /// There may be other values of this field.
    pub(super) fn is_unreadable(&mut self, slot: usize) {
        if let Some(Ok(values)) = self.slots.get_mut(slot) {
            values.is_unreadable = true;
        }
    }

    /// There may be other values of each field.
    pub(super) fn all_are_unreadable(&mut self) {
        self.slots.iter_mut().flatten().for_each(|values| values.is_unreadable = true);
    }

    /// Adds the values of these fields.
    pub(super) fn copy_values(&self, slots: &[usize], values: &mut Values) -> Result<(), TooManyValues> {
        for found in slots.iter().filter_map(|&slot| self.slots.get(slot)) {
            let found = found.as_ref().map_err(|error| *error)?;
            values.is_unreadable |= found.is_unreadable;
            found.iter().try_for_each(|value| values.add(value))?;
        }
        Ok(())
    }
}

impl Drop for FoundInBody {
    fn drop(&mut self) {
        self.slots.iter_mut().flatten().for_each(Values::wipe);
    }
}

impl std::fmt::Debug for FoundInBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FoundInBody({} fields hidden)", self.slots.len())
    }
}
