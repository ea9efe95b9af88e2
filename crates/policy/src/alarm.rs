//! The alarm of a route: a defence may raise one, and operators hear when it begins and ends.
//!
//! The defence knows what raises it, and what happens to attempts while it is on. Logs, metrics and reports know only
//! its words.

use std::sync::Arc;

use http::Uri;

use super::Policy;
use tollgate_bucket::Time;

/// The alarm of one route.
pub trait Alarm {
    /// How people and programs are told of it.
    fn words(&self) -> &'static AlarmWords;

    /// Whether it is on.
    fn is_on(&self) -> bool;

    /// Looks at what has come of attempts: once a second while there are any, or while it is on. The figures by which it
    /// has begun or ended, if it did.
    fn watch(&self, now: Time) -> Option<AlarmFigures>;

    /// Where begin and end are reported, by `http` or `https`, and what else its operator has to hear at once.
    fn report_to(&self) -> Option<&Uri>;
}

/// How people and programs are told of a kind of alarm.
#[derive(Debug, PartialEq, Eq)]
pub struct AlarmWords {
    /// Its name in events.
    pub event: &'static str,
    /// The metric that is 1 while it is on.
    pub gauge: &'static str,
    /// What that metric says.
    pub help: &'static str,
    /// What the log says where it begins.
    pub begins: &'static str,
    /// What the log says where it ends.
    pub ends: &'static str,
}

/// What an alarm saw within the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AlarmFigures {
    /// Failed attempts.
    pub failures: u64,
    /// The share of what failed, from 0 to 1.
    pub share: f64,
}

impl Policy {
    /// The alarms of all routes.
    pub fn alarms(&self) -> impl Iterator<Item = (&Arc<str>, &dyn Alarm)> {
        self.routes.iter().flat_map(|route| route.defences.alarms().map(move |alarm| (&route.name, alarm)))
    }
}
