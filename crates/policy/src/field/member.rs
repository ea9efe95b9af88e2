//! The name of a member of a document, compared leniently.
//!
//! It knows no document. A hash rules out nearly all names, and comparing allocates nothing.

/// The folded name of a member: without case, and without dashes and underscores as with Go's `case:ignore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoldedName {
    hash: u64,
    folded: String,
    /// As an item of an array.
    pub(super) index: Option<usize>,
}

impl FoldedName {
    pub(super) fn new(name: &str) -> Self {
        let (hash, folded) = (hash_folded(name.chars()), folded(name.chars()).collect());
        Self { hash, folded, index: name.parse().ok() }
    }

    /// Whether it is not a position in an array.
    pub(super) fn is_name(&self) -> bool {
        !self.folded.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether a name with this [hash](hash_folded) is this one.
    pub(super) fn is(&self, hash: u64, name: impl Iterator<Item = char>) -> bool {
        self.hash == hash && folded(name).eq(self.folded.chars())
    }
}

fn folded(name: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    let letters = name.filter(|letter| !matches!(letter, '_' | '-'));
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// A hash of the folded name: FNV-1a.
pub(super) fn hash_folded(name: impl Iterator<Item = char>) -> u64 {
    let push = |hash: u64, number: u32| (hash ^ u64::from(number)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for letter in name {
        match letter {
            '_' | '-' => {}
            '\0'..='\x7f' => hash = push(hash, u32::from(letter.to_ascii_lowercase())),
            _ => {
                let letters = letter.to_uppercase().flat_map(char::to_lowercase);
                hash = letters.fold(hash, |hash, letter| push(hash, u32::from(letter)));
            }
        }
    }
    hash
}
