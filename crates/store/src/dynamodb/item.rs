//! The items of the table: one for each bucket.
//!
//! The attributes are `bucket` (the key: a namespace and a hash, so that installations can share a table), `version`,
//! `state` (a bucket's bytes), `expires` (milliseconds since 1970 by the server's clock: it decides), `ttl` (the same
//! in whole seconds, rounded up, for DynamoDB itself, which deletes within days), `limit_name` and `full_at` for
//! people. An item of another shape counts as absent, for reads and writes alike, so damage repairs itself. Sending is
//! left to [`client`](super::client).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock_offset::TimeBounds;
use crate::{RecordVersion, StoreRecord, Stored};
use tollgate_bucket::{Span, Time};

/// `GetItem`.
pub(super) fn get(table: &str, key: &str, is_consistent: bool) -> Value {
    json!({
        "TableName": table,
        "Key": { KEY: { "S": key } },
        "ConsistentRead": is_consistent,
        "ProjectionExpression": "#v, #s, #e",
        "ExpressionAttributeNames": { "#v": VERSION, "#s": STATE, "#e": EXPIRES },
    })
}

/// `PutItem`, on condition that the item still has the version `old`; `version` is its new one.
pub(super) fn put(
    table: &str,
    key: &str,
    old: Option<RecordVersion>,
    new: &StoreRecord,
    version: RecordVersion,
    now: TimeBounds,
) -> Value {
    let mut values = json!({
        ":now": { "N": millis(now.earliest).to_string() },
        ":n": { "S": "N" },
        ":least": { "B": STANDARD.encode([0]) },
    });
    let condition = match old {
        Some(RecordVersion(old)) => {
            values[":old"] = json!({ "N": old.to_string() });
            format!("#v = :old AND {OURS}")
        }
        None => format!("NOT ({OURS})"),
    };
    json!({
        "TableName": table,
        "Item": item(key, new, version, now.latest),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": { "#v": VERSION, "#s": STATE, "#e": EXPIRES },
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    })
}

fn item(key: &str, new: &StoreRecord, version: RecordVersion, latest: Time) -> Value {
    // The write happens somewhat later than this.
    let expires = millis(latest.after(new.ttl).after(ON_THE_WAY)).saturating_add(1);
    json!({
        KEY: { "S": key },
        VERSION: { "N": version.0.to_string() },
        STATE: { "B": STANDARD.encode(&new.bytes) },
        EXPIRES: { "N": expires.to_string() },
        TTL: { "N": expires.div_ceil(1000).to_string() },
        "limit_name": { "S": &*new.limit },
        "full_at": { "S": readable(new.full_at) },
    })
}

/// The record in an item, if it is one of ours and has not expired.
pub(super) fn stored(item: &Value, now: TimeBounds) -> Option<Stored> {
    let text = |name: &str, kind: &str| item.get(name)?.get(kind)?.as_str();
    let expires: u64 = text(EXPIRES, "N")?.parse().ok()?;
    let version = text(VERSION, "N")?.parse().ok()?;
    let bytes = STANDARD.decode(text(STATE, "B")?).ok()?;
    (expires > millis(now.earliest) && !bytes.is_empty())
        .then_some(Stored { bytes, version: RecordVersion(version) })
}

/// RFC 3339.
fn readable(time: Time) -> String {
    let timestamp = Timestamp::from_nanosecond(i128::from(time.as_nanos())).unwrap_or_default();
    format!("{timestamp:.3}")
}

fn millis(time: Time) -> u64 {
    time.as_nanos() / 1_000_000
}

/// The key's attribute.
pub(super) const KEY: &str = "bucket";
/// The attribute by which DynamoDB deletes; a reserved word in its expressions.
pub(super) const TTL: &str = "ttl";
const VERSION: &str = "version";
const STATE: &str = "state";
const EXPIRES: &str = "expires";
/// The condition for an item of ours that has not expired, as [`stored`] checks it.
const OURS: &str = "#e > :now AND attribute_type(#v, :n) AND #s >= :least";
/// The longest time that a caller waits for a write.
const ON_THE_WAY: Span = Span::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn between() -> TimeBounds {
        TimeBounds { earliest: NOW, latest: NOW.after(Span::from_millis(900)) }
    }

    fn record(ttl: Span) -> StoreRecord {
        StoreRecord { bytes: b"state".to_vec(), ttl, limit: "address".into(), full_at: NOW.after(ttl) }
    }

    #[test]
    fn an_item_reads_as_this() {
        let item = item("tollgate:1:00", &record(Span::from_secs(60)), RecordVersion(7), NOW);
        let expected = json!({
            "bucket": { "S": "tollgate:1:00" },
            "version": { "N": "7" },
            "state": { "B": "c3RhdGU=" },
            "expires": { "N": "1800000060251" },
            "ttl": { "N": "1800000061" },
            "limit_name": { "S": "address" },
            "full_at": { "S": "2027-01-15T08:01:00.000Z" },
        });
        assert_eq!(item, expected);
    }

    #[test]
    fn a_time_beyond_all_times_is_the_last_one() {
        let last = Time::from_nanos(u64::MAX);
        let item = item(
            "k",
            &StoreRecord { full_at: last, ..record(Span::from_nanos(u64::MAX)) },
            RecordVersion(u64::MAX),
            last,
        );
        assert_eq!(item["full_at"]["S"], "2554-07-21T23:34:33.709Z");
        let found = stored(&item, TimeBounds { earliest: last, latest: last });
        assert_eq!(found, Some(Stored { bytes: b"state".to_vec(), version: RecordVersion(u64::MAX) }));
    }

    #[test]
    fn an_item_stands_until_the_latest_time_that_it_may_have_been_written() {
        let now = between();
        let item = put("t", "k", None, &record(Span::from_secs(1)), RecordVersion(7), now)["Item"].clone();
        let at = |millis| {
            stored(&item, TimeBounds { earliest: NOW.after(Span::from_millis(millis)), latest: NOW })
        };
        assert!(at(1900 + 250).is_some());
        assert_eq!(at(1900 + 251), None);
    }

    #[test]
    fn what_is_not_ours_is_not_there() {
        let good = item("k", &record(Span::from_secs(60)), RecordVersion(7), NOW);
        assert!(stored(&good, between()).is_some());
        for (name, value) in [
            ("version", json!({ "S": "7" })),
            ("version", json!({ "N": "-7" })),
            ("version", json!({ "N": "7.5" })),
            ("version", json!({ "N": "18446744073709551616" })),
            ("version", json!(7)),
            ("state", json!({ "S": "state" })),
            ("state", json!({ "B": "c3RhdGU" })),
            ("expires", json!({ "N": "99999999999999999999999999999999999999" })),
            ("expires", json!({ "N": "soon" })),
            ("expires", json!(null)),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            assert_eq!(stored(&bad, between()), None, "{bad}");
        }
        for nothing in [json!(null), json!([]), json!("x"), json!({})] {
            assert_eq!(stored(&nothing, between()), None);
        }
    }
}
