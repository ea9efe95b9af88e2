//! The settings of unit files, as `systemctl cat` prints them: the unit first, then its drop-ins.

use std::collections::BTreeMap;

/// The values of each key. Lines that go on, quotes and specifiers are taken as they are.
#[derive(Debug)]
pub(super) struct UnitSettings(BTreeMap<String, Vec<String>>);

impl UnitSettings {
    /// An empty value removes those before it (systemd.syntax(7)).
    pub(super) fn parse(text: &str) -> Self {
        let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        for (key, value) in lines.filter_map(|line| line.split_once('=')) {
            let values = settings.entry(key.trim().to_owned()).or_default();
            match value.trim() {
                "" => values.clear(),
                value => values.push(value.to_owned()),
            }
        }
        Self(settings)
    }

    /// The value that holds, for a key with one value.
    pub(super) fn last(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.last().map(String::as_str)
    }

    /// The words of all values, for a key with a list.
    pub(super) fn words(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.get(key).into_iter().flatten().flat_map(|value| value.split_whitespace())
    }

    pub(super) fn is_on(&self, key: &str) -> bool {
        matches!(self.last(key), Some("yes" | "true" | "on" | "1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_ins_add_to_lists_and_replace_single_values() {
        let settings = UnitSettings::parse(
            "# a file\n[Service]\nUser=gate\nLoadCredential=a:/a\n; another\n[Service]\nUser=other\nLoadCredential=b:/b\n",
        );
        assert_eq!(settings.last("User"), Some("other"));
        assert_eq!(settings.words("LoadCredential").collect::<Vec<_>>(), ["a:/a", "b:/b"]);
    }

    #[test]
    fn an_empty_value_removes_those_before_it() {
        let settings =
            UnitSettings::parse("User=gate\nUser=\nStateDirectory=a b\nStateDirectory=\nStateDirectory=c\n");
        assert_eq!(settings.last("User"), None);
        assert_eq!(settings.words("StateDirectory").collect::<Vec<_>>(), ["c"]);
    }
}
