//! `tollgate policy history`: the policies that the store keeps.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::super::Exit;
use super::super::buckets::aligned;
use super::super::sources::ConfigArgs;
use super::opened;
use crate::cli::output::{out, outln};
use crate::observe::timestamp::rfc3339;
use crate::store::PolicyEntry;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum HistoryFormat {
    Text,
    Json,
}

pub(super) fn history(config: &ConfigArgs, format: HistoryFormat) -> anyhow::Result<Exit> {
    let head = opened(&config.own_sources()?)?.run(async |fleet| Ok(fleet.head().await?))?;
    let newest_first = head.policies().iter().rev();
    match format {
        HistoryFormat::Json => {
            let all: Vec<Value> = newest_first.map(to_json).collect();
            outln!("{}", serde_json::to_string_pretty(&all)?);
        }
        HistoryFormat::Text if head.policies().is_empty() => outln!("no policy has been pushed yet"),
        HistoryFormat::Text => {
            let mut rows = vec![["VERSION", "HASH", "BYTES", "WHEN", "WHO", "WHY"].map(str::to_owned)];
            rows.extend(newest_first.map(row));
            out!("{}", aligned(&rows));
        }
    }
    Ok(Exit::Ok)
}

fn row(entry: &PolicyEntry) -> [String; 6] {
    let PolicyEntry { version, hash, length, by, comment, .. } = entry;
    let columns = [version.to_string(), hash.clone(), length.to_string(), rfc3339(entry.time())];
    let [version, hash, length, time] = columns;
    [version, hash, length, time, by.clone(), comment.clone()]
}

fn to_json(entry: &PolicyEntry) -> Value {
    let PolicyEntry { version, hash, length, by, comment, .. } = entry;
    json!({
        "version": version,
        "hash": hash,
        "bytes": length,
        "at": rfc3339(entry.time()),
        "by": by,
        "comment": comment,
    })
}
