//! The sign-ins of the last minutes, by their cookies: a second step pays from the accounts of the sign-in with the same cookie.
//!
//! `policy` finds cookies and accounts; both are keyed hashes here. They exist only in the memory of this process, so a second step
//! must reach the gate that saw its sign-in.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;

use super::{Engine, Reservation};
use crate::policy::Charges;
use crate::policy::second_step::{SessionCookie, SignedInAccount, SignedInAccounts};
use crate::time::{Span, Time};

/// Cookies, each with the accounts that signed in with it.
#[derive(Debug, Default)]
pub(super) struct RecentSignIns(Mutex<SignInTable>);

#[derive(Debug, Default)]
struct SignInTable {
    next: u64,
    cookies: HashMap<SessionCookie, UsedCookie>,
    /// By the time of their last use, the oldest first.
    order: BTreeMap<u64, SessionCookie>,
}

#[derive(Debug)]
struct UsedCookie {
    number: u64,
    used: Time,
    /// One more than a session has stands for any number.
    accounts: SignedInAccounts,
}

impl RecentSignIns {
    /// Remembers that these accounts signed in with these cookies, or got them.
    pub(super) fn remember(&self, cookies: &[SessionCookie], accounts: &SignedInAccounts, now: Time) {
        if accounts.is_empty() || cookies.is_empty() {
            return;
        }
        let mut table = self.table();
        table.expire(now);
        cookies.iter().for_each(|&cookie| table.insert(cookie, accounts, now));
    }

    /// The accounts that signed in with this cookie; none if more did than one session has. They are remembered for
    /// longer now, so that a client that guesses is not forgotten.
    pub(super) fn signed_in(&self, cookie: SessionCookie, now: Time) -> SignedInAccounts {
        let mut table = self.table();
        table.expire(now);
        let Some(entry) = table.cookies.get(&cookie) else { return SignedInAccounts::new() };
        let accounts = entry.accounts.clone();
        table.touch(cookie, now);
        if accounts.len() > MAX_ACCOUNTS { SignedInAccounts::new() } else { accounts }
    }

    /// Forgets the cookies of these accounts, or only counts them.
    pub(super) fn forget(&self, is_theirs: impl Fn(&SignedInAccount) -> bool, is_dry_run: bool) -> usize {
        let mut table = self.table();
        let of_theirs = |used: &UsedCookie| used.accounts.iter().any(&is_theirs);
        let found: Vec<_> = table.cookies.iter().filter(|(_, used)| of_theirs(used)).collect();
        let found: Vec<_> = found.into_iter().map(|(cookie, used)| (*cookie, used.number)).collect();
        for (cookie, number) in found.iter().filter(|_| !is_dry_run) {
            table.cookies.remove(cookie);
            table.order.remove(number);
        }
        found.len()
    }

    fn table(&self) -> MutexGuard<'_, SignInTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Remembers the cookies of an attempt that goes to the application.
    pub(super) fn remember_sign_in(&self, found: &Charges) {
        if let Some(sign_in) = &found.unsettled.sign_in {
            self.sign_ins.remember(&sign_in.cookies, &sign_in.accounts, self.clock().now());
        }
    }
}

impl Reservation {
    /// Remembers whose sign-in got the cookies that the response sets.
    pub fn remember_new_cookies(&self, engine: &Engine, response: &HeaderMap) {
        let sign_in = self.unsettled.sign_in.as_deref();
        if let Some(sign_in) = sign_in.filter(|sign_in| !sign_in.accounts.is_empty()) {
            let cookies = engine.hasher.new_session_cookies(response);
            engine.sign_ins.remember(&cookies, &sign_in.accounts, engine.clock().now());
        }
    }
}

impl SignInTable {
    fn insert(&mut self, cookie: SessionCookie, accounts: &SignedInAccounts, now: Time) {
        if self.cookies.len() >= MAX_COOKIES && !self.cookies.contains_key(&cookie) {
            self.remove_oldest();
        }
        let new = || UsedCookie { number: 0, used: now, accounts: SignedInAccounts::new() };
        let known = &mut self.cookies.entry(cookie).or_insert_with(new).accounts;
        for account in accounts {
            if known.len() <= MAX_ACCOUNTS && !known.contains(account) {
                known.push(*account);
            }
        }
        self.touch(cookie, now);
    }

    fn touch(&mut self, cookie: SessionCookie, now: Time) {
        let Some(entry) = self.cookies.get_mut(&cookie) else { return };
        self.order.remove(&entry.number);
        self.next = self.next.saturating_add(1);
        (entry.number, entry.used) = (self.next, now);
        self.order.insert(self.next, cookie);
    }

    /// Each call removes old entries, which are at the beginning.
    fn expire(&mut self, now: Time) {
        while let Some(cookie) = self.order.values().next() {
            if self.cookies.get(cookie).is_some_and(|entry| now.since(entry.used) < TTL) {
                return;
            }
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, cookie)) = self.order.pop_first() {
            self.cookies.remove(&cookie);
        }
    }
}

/// Accounts of one session at most. A cookie with more is one that many browsers have, such as a balancer's: a second step
/// with it alone is that of a stranger.
const MAX_ACCOUNTS: usize = 3;

/// From the last sign-in or second step on.
const TTL: Span = Span::from_secs(15 * 60);

/// All cookies: then the one that was not used for longest is dropped.
const MAX_COOKIES: usize = 50_000;

#[cfg(test)]
mod tests {
    use http::header::{COOKIE, SET_COOKIE};
    use http::{HeaderMap, HeaderValue, Method};
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Continuous, Spec};
    use crate::engine::Decision;
    use crate::event::Events;
    use crate::policy::attempt::{Attempt, AttemptBody, Client};
    use crate::policy::field::Field;
    use crate::policy::key::KeyPart;
    use crate::policy::outcome::Outcome;
    use crate::policy::{ChargeOn, Limit, Policy, Route, RouteReading, SecondStep};
    use crate::time::Clock;

    const BURST: usize = 4;
    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    /// Four failures for each account, and none after them.
    fn engine() -> Engine {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(86_400), 4).unwrap());
        let limit =
            Limit { key: vec![KeyPart::User], charge_on: ChargeOn::Failures, ..Limit::new("account", spec) };
        let route = |name: &str| Route {
            limits: vec![0],
            ..Route::new(name, vec![format!("POST /{name}").parse().unwrap()])
        };
        let login = Route {
            reading: RouteReading { user: vec![Field::Form("log".into())], ..route("login").reading },
            ..route("login")
        };
        let code = Route { step: Some(SecondStep::default()), ..route("code") };
        Engine::new(Policy::new(vec![login, code], vec![limit]), 1000, Clock::manual(NOW), Events::default())
            .unwrap()
    }

    fn session(number: usize) -> String {
        format!("session-{number:016}")
    }

    fn headers(name: http::HeaderName, sessions: &[usize]) -> HeaderMap {
        let line = |number: &usize| HeaderValue::try_from(format!("s{number}={}", session(*number)));
        sessions.iter().map(|number| (name.clone(), line(number).unwrap())).collect()
    }

    /// A client with another address for each attempt.
    struct Attacker {
        engine: Engine,
        addresses: u32,
    }

    impl Attacker {
        fn new() -> Self {
            Self { engine: engine(), addresses: 0 }
        }

        /// An attempt at an account, or a code, with these sessions; the answer sets the new ones. Whether it was
        /// admitted.
        fn tries(
            &mut self,
            user: Option<usize>,
            sessions: &[usize],
            outcome: Outcome,
            new: &[usize],
        ) -> bool {
            self.addresses += 1;
            let body = user.map(|user| format!("log=user{user}")).unwrap_or_default();
            let attempt = Attempt {
                method: &Method::POST,
                path: if user.is_some() { "/login" } else { "/code" },
                query: None,
                host: "",
                client: Client::from_ip(std::net::Ipv4Addr::from_bits(self.addresses).into()),
                headers: &headers(COOKIE, sessions),
                body: AttemptBody::Whole(body.as_bytes()),
                descriptor: None,
                tls: None,
            };
            let (engine, rules) = (&self.engine, self.engine.rules());
            match engine.decide_in_memory(&rules, &attempt, engine.clock().now()) {
                Ok(Decision::Admitted(reservation)) => {
                    reservation.remember_new_cookies(engine, &headers(SET_COOKIE, new));
                    reservation.settle(engine, &rules, outcome);
                    true
                }
                _ => false,
            }
        }

        fn signs_in(&mut self, user: usize, sessions: &[usize], new: &[usize]) {
            assert!(self.tries(Some(user), sessions, Outcome::Success, new));
        }

        /// How many of so many wrong codes are admitted.
        fn codes(&mut self, sessions: &[usize], codes: usize) -> usize {
            (0..codes).filter(|_| self.tries(None, sessions, Outcome::Failure, &[])).count()
        }
    }

    proptest! {
        /// The application keeps one pending account for each session, that of the last right password, and reads the
        /// first cookie. An attacker who knows all passwords brings any cookies, and fails at codes and passwords.
        #[test]
        fn no_more_guesses_pass_than_the_account_has_whatever_cookies_come_along(
            attempts in prop::collection::vec(
                (prop::option::of(0_usize..12), prop::collection::vec(0_usize..6, 1..4), any::<bool>(), any::<bool>()),
                1..120,
            ),
        ) {
            let mut attacker = Attacker::new();
            let (mut pending, mut guessed, mut next) = (HashMap::new(), [0; 12], 6);
            // A session with the accounts of many people does not count, and the tokens of strangers are added once.
            let strangers = BURST * 4;
            for (user, mut sessions, is_right, is_new) in attempts {
                // Some of the attacker's sessions are those that the application made last.
                if next > 6 && is_new {
                    sessions.insert(0, next - 1);
                }
                let Some(user) = user else {
                    if attacker.codes(&sessions, 1) == 1 && let Some(user) = pending.get(&sessions[0]) {
                        guessed[*user] += 1;
                    }
                    continue;
                };
                let outcome = if is_right { Outcome::Success } else { Outcome::Failure };
                let new = if is_new { vec![next] } else { Vec::new() };
                if attacker.tries(Some(user), &sessions, outcome, &new) {
                    match is_right {
                        true => _ = pending.insert(new.first().copied().unwrap_or(sessions[0]), user),
                        false => guessed[user] += 1,
                    }
                    next += new.len();
                }
            }
            prop_assert!(guessed.iter().map(|guesses: &usize| guesses.saturating_sub(BURST)).sum::<usize>() <= strangers, "{guessed:?}");
        }
    }

    #[test]
    fn a_session_is_followed_for_a_quarter_of_an_hour_after_its_last_guess() {
        let mut attacker = Attacker::new();
        attacker.signs_in(1, &[1], &[]);
        for minutes in [14, 28, 42, 56, 70] {
            attacker.engine.clock().set(NOW.after(Span::from_secs(minutes * 60)));
            assert_eq!(attacker.codes(&[1], 1), usize::from(minutes < 70), "after {minutes} minutes");
        }
        attacker.engine.clock().set(NOW.after(Span::from_secs(85 * 60)));
        assert_eq!(attacker.codes(&[1], 99), 4 * BURST, "now strangers pay together");
        assert_eq!(attacker.codes(&[2], 9), 0, "whatever their sessions and addresses are");
        assert!(attacker.engine.sign_ins.table().cookies.is_empty());
    }

    #[test]
    fn a_cookie_that_everybody_has_shuts_nobody_out() {
        let mut attacker = Attacker::new();
        for user in 0..20 {
            attacker.signs_in(user, &[999, user], &[]);
        }
        for user in 0..20 {
            assert!(attacker.tries(None, &[999, user], Outcome::Success, &[]), "{user}");
            assert_eq!(attacker.codes(&[999, user], 9), BURST, "{user}");
        }
    }

    #[test]
    fn the_cookie_that_was_not_used_for_longest_gives_way() {
        let mut attacker = Attacker::new();
        attacker.signs_in(1, &[0], &[]);
        for first in (0..MAX_COOKIES).step_by(25) {
            let new: Vec<usize> = (first..first + 25).map(|number| number + 1).collect();
            attacker.signs_in(2, &[], &new);
        }
        let sizes = {
            let table = attacker.engine.sign_ins.table();
            [table.cookies.len(), table.order.len()]
        };
        assert_eq!(sizes, [MAX_COOKIES; 2]);
        assert_eq!([attacker.codes(&[0], 99), attacker.codes(&[1], 9)], [4 * BURST, BURST]);
    }

    #[test]
    fn an_attempt_with_more_cookies_than_browsers_send_is_refused() {
        let mut attacker = Attacker::new();
        let many: Vec<usize> = (0..33).collect();
        assert!(!attacker.tries(Some(1), &many, Outcome::Success, &[]));
        attacker.signs_in(1, &many[..32], &[]);
        assert_eq!([attacker.codes(&many, 9), attacker.codes(&many[31..32], 9)], [0, BURST]);
    }
}
