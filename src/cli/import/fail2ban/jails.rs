//! The syntax of fail2ban's files: sections, settings, and continued lines. It knows no setting by its meaning.

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli::import) struct JailSetting {
    /// From 1.
    pub(in crate::cli::import) line: usize,
    /// In lower case.
    pub(in crate::cli::import) key: String,
    pub(in crate::cli::import) value: String,
}

/// A section that is a jail.
#[derive(Debug)]
pub(in crate::cli::import) struct Jail {
    pub(in crate::cli::import) line: usize,
    pub(in crate::cli::import) name: String,
    settings: Vec<JailSetting>,
}

/// A file: the defaults and the jails.
#[derive(Debug, Default)]
pub(in crate::cli::import) struct JailFile {
    defaults: Vec<JailSetting>,
    pub(in crate::cli::import) jails: Vec<Jail>,
}

impl JailFile {
    pub(in crate::cli::import) fn parse(text: &str) -> Self {
        let mut file = Self::default();
        let mut is_jail = false;
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let (number, is_continued) = (at + 1, line.starts_with([' ', '\t']));
            let line = without_comment(line);
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                is_jail = !matches!(name, "DEFAULT" | "INCLUDES");
                if is_jail {
                    file.jails.push(Jail { line: number, name: name.to_owned(), settings: Vec::new() });
                }
                continue;
            }
            let settings = match file.jails.last_mut() {
                Some(jail) if is_jail => &mut jail.settings,
                _ => &mut file.defaults,
            };
            match (is_continued, settings.last_mut()) {
                (true, Some(last)) => last.value.extend([" ", line]),
                _ => settings.extend(setting(number, line)),
            }
        }
        file
    }

    /// The setting of a jail, or else the default; of several the last.
    pub(in crate::cli::import) fn setting<'f>(
        &'f self,
        jail: &'f Jail,
        key: &str,
    ) -> Option<&'f JailSetting> {
        let find = |settings: &'f [JailSetting]| settings.iter().rev().find(|setting| setting.key == key);
        find(&jail.settings).or_else(|| find(&self.defaults))
    }

    pub(in crate::cli::import) fn value<'f>(&'f self, jail: &'f Jail, key: &str) -> Option<&'f str> {
        self.setting(jail, key).map(|setting| &*setting.value)
    }

    /// All settings by section.
    pub(in crate::cli::import) fn sections(&self) -> impl Iterator<Item = (&str, &[JailSetting])> {
        let jails = self.jails.iter().map(|jail| (&*jail.name, &jail.settings[..]));
        std::iter::once(("DEFAULT", &self.defaults[..])).chain(jails)
    }
}

fn setting(line: usize, text: &str) -> Option<JailSetting> {
    let (key, value) = text.split_once(['=', ':'])?;
    let key = key.trim().to_ascii_lowercase();
    (!key.is_empty()).then(|| JailSetting { line, key, value: value.trim().to_owned() })
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    let starts = [" #", "\t#", " ;", "\t;"].iter().filter_map(|mark| line.find(mark));
    let end = match line.starts_with(['#', ';']) {
        true => 0,
        false => starts.min().unwrap_or(line.len()),
    };
    line[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jail_has_the_defaults_and_continued_lines() {
        let file = JailFile::parse(
            "[DEFAULT]\nbantime = 1h  # long\nignoreip = 127.0.0.1\n\t::1\n[a]\nmaxretry: 3\n; no\n",
        );
        let jail = &file.jails[0];
        assert_eq!((jail.line, &*jail.name), (5, "a"));
        assert_eq!(file.value(jail, "bantime"), Some("1h"));
        assert_eq!(file.value(jail, "ignoreip"), Some("127.0.0.1 ::1"));
        assert_eq!(file.value(jail, "maxretry"), Some("3"));
    }
}
