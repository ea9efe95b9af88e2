//! The first lines: how the gate is, and what is wrong with it.

use std::fmt::Display;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::super::state::TopState;
use super::{Palette, words};
use crate::config::grouped;
use crate::observe::admin::pages::StatusPage;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let status = &state.overview().status;
    let mut parts = vec![Span::styled(format!("tollgate {}", status.version), palette.strong())];
    parts.push(match status.state.as_str() {
        "running" => Span::styled("running", palette.good()),
        other => Span::styled(other, palette.warning()),
    });
    parts.push(match status.mode.as_str() {
        "enforce" => Span::raw("enforce"),
        other => Span::styled(other, palette.warning()),
    });
    parts.push(Span::raw(format!("up {}", words::time(status.uptime))));
    parts.push(Span::raw(format!("{} connections", grouped(status.connections))));
    parts.push(health(format!("store {}", status.store.url), status.store.up, palette));
    if let Some(upstreams) = upstreams(status, palette) {
        parts.push(upstreams);
    }
    if state.is_paused() {
        parts.insert(1, Span::styled("paused", palette.warning()));
    }
    let separated = parts.into_iter().flat_map(|part| [Span::raw("  "), part]).skip(1);
    frame.render_widget(Paragraph::new(Line::from_iter(separated)).wrap(Wrap { trim: true }), area);
}

fn health(name: impl Display, is_up: bool, palette: Palette) -> Span<'static> {
    if is_up { Span::raw(format!("{name} up")) } else { Span::styled(format!("{name} down"), palette.bad()) }
}

fn upstreams(status: &StatusPage, palette: Palette) -> Option<Span<'static>> {
    let all = status.upstreams.len();
    let down = status.upstreams.iter().filter(|one| !one.up).count();
    match (all, down) {
        (0, _) => None,
        (1, _) => Some(health("upstream", down == 0, palette)),
        (_, 0) => Some(health(format!("{all} upstreams"), true, palette)),
        (_, down) => Some(health(format!("{down} of {all} upstreams"), false, palette)),
    }
}

/// The lines that the alerts need.
pub(super) fn alert_height(state: &TopState, area: Rect) -> u16 {
    let width = usize::from(area.width.max(1));
    let lines =
        alerts(state, Palette::new(false)).iter().map(|line| line.width().div_ceil(width)).sum::<usize>();
    u16::try_from(lines).unwrap_or(u16::MAX)
}

pub(super) fn draw_alerts(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    frame.render_widget(Paragraph::new(alerts(state, palette)).wrap(Wrap { trim: true }), area);
}

/// The worst comes first: the last lines may find no place.
fn alerts(state: &TopState, palette: Palette) -> Vec<Line<'static>> {
    let status = &state.overview().status;
    let outage =
        state.outage().map(|why| Line::styled(format!("the gate does not answer: {why}"), palette.alarm()));
    let age = state.staleness().map(|age| age.as_nanos() / 1_000_000_000);
    let stale = age
        .map(|age| Line::styled(format!("the last answer is {} old", words::time(age)), palette.warning()));
    let attacks = (!status.attacks.is_empty())
        .then(|| Line::styled(format!("under attack: {}", names(&status.attacks)), palette.alarm()));
    let down = down(status).map(|name| Line::styled(format!("{name} is down"), palette.bad()));
    let warnings =
        status.warnings.iter().map(|text| Line::styled(format!("warning: {text}"), palette.warning()));
    [outage, stale, attacks].into_iter().flatten().chain(down).chain(warnings).collect()
}

/// The store and the upstreams that do not answer the gate.
fn down(status: &StatusPage) -> impl Iterator<Item = String> {
    let store = (!status.store.up).then(|| format!("store {}", status.store.url));
    let upstreams = status.upstreams.iter().filter(|one| !one.up);
    store.into_iter().chain(upstreams.map(|one| format!("upstream {}", one.upstream)))
}

fn names(all: &[String]) -> String {
    all.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
