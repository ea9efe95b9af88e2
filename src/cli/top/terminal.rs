//! The loop of the live view: keys, answers of the gate, and the signals that end it.
//!
//! The terminal is given back on every way out: by a drop, and in a panic by the hook that ratatui sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::poller::{PollReply, PollRequest, Poller};
use super::screen::{self, Palette};
use super::state::{KeyEffect, OperatorAction, TopState};
use crate::cli::admin_api::AdminGate;
use crate::time::{Clock, Time};

/// Shows the gate until the operator quits or a signal ends the process.
///
/// # Errors
/// If the terminal cannot be used.
pub(super) fn run(gate: &AdminGate, state: TopState, palette: Palette) -> anyhow::Result<()> {
    let is_stopped = stop_flag()?;
    end_with_terminal(Arc::clone(&is_stopped))?;
    let poller = Poller::start(gate)?;
    let restore = RestoreTerminal;
    let mut terminal =
        ratatui::try_init().context("the terminal cannot be used; --once prints one overview")?;
    let clock = Clock::system();
    let now = clock.now();
    let mut live = LiveView {
        poller,
        answered: now,
        asked: now,
        is_due: false,
        action: None,
        is_waiting: false,
        state,
        palette,
    };
    while !is_stopped.load(Ordering::Relaxed) {
        live.draw(&mut terminal, clock.now())?;
        if event::poll(TICK)? && live.on_event(&event::read()?) {
            break;
        }
        live.poll(clock.now())?;
    }
    // The cursor comes back before the screen does.
    drop(terminal);
    drop(restore);
    Ok(())
}

struct LiveView {
    poller: Poller,
    /// When the gate answered last.
    answered: Time,
    /// When it was last asked for an overview.
    asked: Time,
    /// A fresh overview is wanted at once.
    is_due: bool,
    /// What the operator wants done, as soon as no question is open.
    action: Option<OperatorAction>,
    /// A question is open.
    is_waiting: bool,
    state: TopState,
    palette: Palette,
}

impl LiveView {
    fn draw(&mut self, terminal: &mut DefaultTerminal, now: Time) -> anyhow::Result<()> {
        self.state.set_age(now.since(self.answered));
        terminal.draw(|frame| screen::draw(frame, &self.state, self.palette))?;
        Ok(())
    }

    /// Whether it ends the view.
    fn on_event(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        match self.state.on_key(*key) {
            KeyEffect::None => {}
            KeyEffect::Quit => return true,
            KeyEffect::Refresh => self.is_due = true,
            KeyEffect::Act(action) => self.action = Some(action),
        }
        false
    }

    /// Takes a reply if there is one, and asks again if it is time.
    fn poll(&mut self, now: Time) -> anyhow::Result<()> {
        if let Some(reply) = self.poller.reply()? {
            self.is_waiting = false;
            self.take(reply, now);
        }
        if !self.is_waiting
            && let Some(request) = self.next_request(now)
        {
            self.poller.ask(request);
            self.is_waiting = true;
        }
        Ok(())
    }

    fn take(&mut self, reply: PollReply, now: Time) {
        match reply {
            PollReply::Overview(overview) => {
                self.answered = if overview.is_ok() { now } else { self.answered };
                self.state.update(overview.map(|overview| *overview));
            }
            PollReply::Acted(action, done) => {
                self.state.say_done(&action, done);
                self.is_due = true;
            }
        }
    }

    fn next_request(&mut self, now: Time) -> Option<PollRequest> {
        if let Some(action) = self.action.take() {
            return Some(PollRequest::Act(action));
        }
        let query = self.state.query();
        let is_late = !self.state.is_paused() && now.since(self.asked) >= query.every;
        if !(self.is_due || is_late) {
            return None;
        }
        (self.asked, self.is_due) = (now, false);
        Some(PollRequest::Overview(query.clone()))
    }
}

/// Gives the terminal back when it is dropped.
struct RestoreTerminal;

impl Drop for RestoreTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = ratatui::try_restore();
    }
}

fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Ends the process where the loop cannot: crossterm reads an ended terminal for ever.
fn end_with_terminal(is_stopped: Arc<AtomicBool>) -> anyhow::Result<()> {
    let wait = move || {
        // poll(2) reports the end of a terminal without being asked for any event.
        let is_open = || {
            let input = rustix::stdio::stdin();
            let mut terminal = [PollFd::new(&input, PollFlags::empty())];
            let _ = rustix::event::poll(&mut terminal, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            !terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
        };
        while is_open() && !is_stopped.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
        }
        std::thread::sleep(TIME_TO_END);
        drop(RestoreTerminal);
        std::process::exit(0);
    };
    std::thread::Builder::new().name("terminal-end".into()).spawn(wait)?;
    Ok(())
}

/// For the loop to end by itself.
const TIME_TO_END: Duration = Duration::from_millis(500);
/// How soon an answer of the gate or a signal is seen; keys are seen at once.
const TICK: Duration = Duration::from_millis(100);
