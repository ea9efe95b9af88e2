//! Counts calls as each reader would: elements with the name, texts that equal the name, structs with the name as a
//! key.
//!
//! The last follows IXR step by step: a member's name is pushed on a stack at `</name>`, at any position, and popped at
//! `</member>`; a value that ends in a struct goes under the name on top. So one name outside of any member serves
//! every struct that follows.

use super::super::UnreadableBody;
use super::local_name;
use super::name_match::NameMatch;

/// The counts so far, and the state of the parse.
pub(super) struct CallCounter<'n> {
    name: &'n str,
    open: Vec<OpenElement>,
    rooted: bool,
    /// The text since the last tag of any kind.
    since_tag: NameMatch,
    /// The text since the last opening tag.
    since_open: NameMatch,
    elements: u32,
    texts: u32,
    calls: u32,
    /// IXR's stack of names: whether each is our name.
    names: Vec<bool>,
    /// IXR's stack of containers.
    containers: Vec<IxrContainer>,
}

/// An open element.
#[derive(Clone, Copy)]
struct OpenElement {
    /// Whether it is called `name`.
    is_name: bool,
    has_children: bool,
}

/// A container in which IXR collects values.
#[derive(Clone, Copy, PartialEq)]
enum IxrContainer {
    Array,
    Struct,
    /// A struct with our name among its keys.
    Call,
}

impl<'n> CallCounter<'n> {
    pub(super) fn new(name: &'n str) -> Self {
        Self {
            name,
            open: Vec::new(),
            rooted: false,
            since_tag: NameMatch::default(),
            since_open: NameMatch::default(),
            elements: 0,
            texts: 0,
            calls: 0,
            names: Vec::new(),
            containers: Vec::new(),
        }
    }

    /// Opens an element with this name.
    pub(super) fn open(&mut self, tag: &str) -> Result<(), UnreadableBody> {
        match self.open.last_mut() {
            Some(parent) => parent.has_children = true,
            // Some readers ignore a second root, others read it.
            None if self.rooted => return Err(UnreadableBody),
            None => self.rooted = true,
        }
        if self.open.len() >= MAX_XML_DEPTH {
            return Err(UnreadableBody);
        }
        let is_name = local_name(tag).eq_ignore_ascii_case("name");
        self.open.push(OpenElement { is_name, has_children: false });
        self.elements += u32::from(local_name(tag).eq_ignore_ascii_case(self.name));
        (self.since_tag, self.since_open) = (NameMatch::default(), NameMatch::default());
        match tag {
            "data" => self.containers.push(IxrContainer::Array),
            "struct" => self.containers.push(IxrContainer::Struct),
            _ => {}
        }
        Ok(())
    }

    /// Closes the current element.
    pub(super) fn close(&mut self, tag: &str) {
        let name = self.name.as_bytes();
        let is_ours = self.since_tag.is(name);
        // Readers differ about a name with elements in it, so it counts.
        let is_odd = self.open.pop().is_some_and(|open| open.is_name && open.has_children);
        self.texts += u32::from(is_ours || is_odd || self.since_open.is(name));
        self.since_tag = NameMatch::default();
        match tag {
            "name" => self.names.push(is_ours),
            "member" => drop(self.names.pop()),
            "data" | "struct" => drop(self.containers.pop()),
            _ => {}
        }
        if self.names.last() == Some(&true)
            && let Some(container @ IxrContainer::Struct) = self.containers.last_mut()
        {
            *container = IxrContainer::Call;
            self.calls += 1;
        }
    }

    /// Adds a piece of text. Text outside of the root is refused: not every reader accepts it.
    pub(super) fn text(&mut self, mut bytes: impl Iterator<Item = u8>) -> Result<(), UnreadableBody> {
        if self.open.is_empty() {
            return if bytes.all(|byte| byte.is_ascii_whitespace()) { Ok(()) } else { Err(UnreadableBody) };
        }
        for byte in bytes {
            self.since_tag.push(byte, self.name.as_bytes());
            self.since_open.push(byte, self.name.as_bytes());
        }
        Ok(())
    }

    /// Ends the document: the number of attempts of the reader that finds most.
    pub(super) fn finish(self) -> Result<u32, UnreadableBody> {
        if !self.open.is_empty() {
            return Err(UnreadableBody);
        }
        Ok(self.elements.max(self.texts).max(self.calls))
    }
}

/// Nested elements at most. libxml2 stops at 256, later versions at 2,048; each nested array of a call takes three.
const MAX_XML_DEPTH: usize = 2048;
