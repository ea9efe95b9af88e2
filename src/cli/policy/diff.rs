//! `tollgate policy diff`: two policies, line by line.

use std::path::Path;

use similar::TextDiff;

use super::super::Exit;
use super::super::sources::{ConfigArgs, NoConfiguration};
use super::{entry_of, opened};
use crate::cli::output::out;
use crate::config::Sources;

pub(super) fn diff(file: Option<&Path>, config: &ConfigArgs) -> anyhow::Result<Exit> {
    let [before, after] = match file {
        Some(file) => {
            let text = Sources::from_file(file);
            let text = text.map_err(|error| NoConfiguration::of(&file.display().to_string(), &error))?.text;
            [newest(config)?, (file.display().to_string(), text)]
        }
        None => last_two(config)?,
    };
    let difference = TextDiff::from_lines(&before.1, &after.1);
    out!("{}", difference.unified_diff().header(&before.0, &after.0));
    Ok(if before.1 == after.1 { Exit::Ok } else { Exit::Failed })
}

/// The name and the text of the newest policy.
fn newest(config: &ConfigArgs) -> anyhow::Result<(String, String)> {
    opened(&config.own_sources()?)?.run(async |fleet| {
        let head = fleet.head().await?;
        let entry = entry_of(&head, None)?;
        Ok((name_of(entry.version), fleet.policy(entry).await?))
    })
}

/// The newest policy and the one before; before the first one there was nothing.
fn last_two(config: &ConfigArgs) -> anyhow::Result<[(String, String); 2]> {
    opened(&config.own_sources()?)?.run(async |fleet| {
        let head = fleet.head().await?;
        let after = entry_of(&head, None)?;
        let before = match head.policies() {
            [.., before, _] => (name_of(before.version), fleet.policy(before).await?),
            _ => ("nothing".to_owned(), String::new()),
        };
        Ok([before, (name_of(after.version), fleet.policy(after).await?)])
    })
}

fn name_of(version: u64) -> String {
    format!("policy {version}")
}
