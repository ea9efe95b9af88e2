//! Clients that the kernel drops in the gate's place: `kernel.nftables`.
//!
//! They are the prefixes that operators banned, and single clients that connect directly and are refused everywhere for
//! long: banned ones, and those whose waits have grown to the longest. Its own thread decides that by the buckets,
//! and tells the kernel. Where it fails, the gate goes on refusing them.

mod dropped;
mod queue;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use tokio::runtime::Runtime;

pub(super) use self::queue::{DropQueue, KernelSources};

use self::dropped::{DroppedClients, ElementChanges, element};
use self::queue::{SHORTEST, WaitingDrops};
use crate::bucket::{Admission, Spec};
use crate::config::Config;
use crate::engine::{BucketView, Engine, Rules};
use crate::event::{Event, KernelDrops};
use crate::net::inherited::InheritedSockets;
use crate::net::listener::{BoundSocket, Callers};
use crate::net::nftables::{
    AddressRange, NftElement, NftError, NftSet, NftTable, flattened, merged, overlapping,
};
use crate::net::worker_sockets::WorkerSockets;
use crate::policy::attempt::Client;
use crate::policy::bucket_ref::BucketSelector;
use crate::policy::key::KeyPart;
use crate::policy::{LimitKind, Mode, Policy};
use crate::proxy::runtime_config::RuntimeConfig;
use crate::time::{Span, Time};

/// A table in the kernel, and the thread that has not begun to write it.
pub(super) struct KernelOffload {
    table: NftTable,
    listeners: Vec<SocketAddr>,
    queue: Arc<DropQueue>,
    dropped: DroppedClients,
    prefixes: Vec<(AddressRange, Time)>,
    spared: Vec<AddressRange>,
    /// Whether the kernel's sets may be others than these.
    is_unsure: bool,
    /// Whether the sets have elements of an old process, which this one has not read yet.
    is_inherited: bool,
    are_prefixes_new: bool,
    /// The rules by which prefixes were read.
    generation: Option<u64>,
    /// The policy by which single clients were looked at.
    policy: Option<Arc<Policy>>,
    /// When everything was last written, without success.
    tried: Option<Time>,
    /// Whether a client found no room since that was last told.
    is_full: bool,
    told_full: Option<Time>,
    shown: KernelDrops,
    /// What listeners heard last.
    reported: KernelDrops,
    /// Clients that were looked at a moment ago and are not to be dropped.
    seen: HashSet<IpAddr>,
    forgotten: Time,
}

impl KernelOffload {
    /// Makes the table of a gate with these sockets, or takes over that of an old process; `None` if it is off. The
    /// socket is handed on with the others.
    pub(super) fn prepare(
        config: &Config,
        sockets: &mut WorkerSockets,
        inherited: &mut InheritedSockets,
    ) -> Result<Option<Self>, NftError> {
        let Some(name) = &config.process.nftables else { return Ok(None) };
        let listeners = client_ports(sockets);
        let (table, is_inherited) = match NftTable::inherit(name, inherited)? {
            // The old process still writes it.
            Some(table) => (table, true),
            None => {
                let mut table = NftTable::create(name)?;
                table.guard(&listeners)?;
                (table, false)
            }
        };
        sockets.fds.add_other(table.to_hand_on()).map_err(NftError::Refused)?;
        Ok(Some(Self {
            table,
            listeners,
            queue: Arc::default(),
            dropped: DroppedClients::default(),
            prefixes: Vec::new(),
            spared: Vec::new(),
            is_unsure: true,
            is_inherited,
            are_prefixes_new: false,
            generation: None,
            policy: None,
            tried: None,
            is_full: false,
            told_full: None,
            shown: KernelDrops::default(),
            reported: KernelDrops::default(),
            seen: HashSet::new(),
            forgotten: Time::from_nanos(0),
        }))
    }

    /// Where events go, and what stops the thread.
    pub(super) fn queue(&self) -> Arc<DropQueue> {
        Arc::clone(&self.queue)
    }

    /// Starts the thread, which calls `first` before anything else.
    pub(super) fn start(self, first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let run = move || {
            first();
            // Without a runtime no bucket is looked at; bans of prefixes need none.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            self.run(runtime.ok().as_ref());
        };
        thread::Builder::new().name("kernel".to_owned()).spawn(run).map(drop)
    }

    fn run(mut self, runtime: Option<&Runtime>) {
        let queue = Arc::clone(&self.queue);
        loop {
            let waiting = queue.wait(TICK);
            let Some(sources) = queue.sources() else { continue };
            let Some(engine) = sources.engine.upgrade() else { return };
            self.look(waiting, &engine, &sources.config.load_full(), runtime);
            let mut told = Ok(());
            let own = engine.clock().now();
            queue.in_turn(|| told = self.tell(own, engine.time()));
            if self.is_full && self.told_full.is_none_or(|told| own.since(told) >= REMINDER) {
                (self.is_full, self.told_full) = (false, Some(own));
                sources
                    .events
                    .emit(&Event::KernelRefused { why: "it drops as many clients as it may already" });
            }
            if let Err(error) = told {
                sources.events.emit(&Event::KernelRefused { why: &error.to_string() });
            } else if !self.is_unsure && self.shown != self.reported {
                sources.events.emit(&Event::KernelDrops(self.shown));
                (self.shown.added, self.shown.removed) = (0, 0);
                self.reported = self.shown;
            }
            // What comes in the meantime is told in one batch.
            thread::sleep(BETWEEN_BATCHES);
        }
    }

    /// Looks at what has come, and notes what the kernel has to be told.
    fn look(
        &mut self,
        waiting: WaitingDrops,
        engine: &Engine,
        config: &RuntimeConfig,
        runtime: Option<&Runtime>,
    ) {
        let rules = Arc::clone(&engine.rules());
        self.is_unsure |= waiting.is_unsure;
        self.dropped.forget_ended(engine.time());
        let mut are_drops_in_doubt = waiting.all;
        if std::mem::take(&mut self.is_inherited) {
            let queue = Arc::clone(&self.queue);
            queue.in_turn(|| self.adopt(engine.time()));
            // They are looked at once ports and prefixes are told.
            self.queue.tell(|again| again.all = true);
        }
        if waiting.generation.is_some_and(|heard_of| rules.generation < heard_of) {
            // Rules are announced a moment before they are in force.
            self.queue.tell(|again| again.generation = again.generation.max(waiting.generation));
        } else if self.generation != Some(rules.generation) {
            are_drops_in_doubt |= self.follow_rules(&rules, config, engine.time());
        }
        let is_direct = config.settings.proxy_protocol.is_none();
        let mut changed = waiting.changed;
        if are_drops_in_doubt {
            changed.extend(self.dropped.addresses());
        }
        let own = engine.clock().now();
        if own.since(self.forgotten) >= LOOK_AGAIN || own < self.forgotten {
            (self.seen, self.forgotten) = (HashSet::new(), own);
        }
        let is_new = |ip: &IpAddr| is_direct && !changed.contains(ip) && !self.seen.contains(ip);
        let refused: Vec<_> = waiting.refused.into_iter().filter(is_new).take(MAX_LOOKS).collect();
        for ip in refused {
            // The next refused attempt is looked at again.
            if self.review(ip, engine, &rules, runtime).is_none() {
                break;
            }
        }
        let mut changed = changed.into_iter();
        while let Some(ip) = changed.next() {
            if self.review(ip, engine, &rules, runtime).is_none() {
                self.queue.tell(|again| again.add_changed([ip].into_iter().chain(changed.by_ref())));
                // The store does not answer.
                thread::sleep(TICK);
            }
        }
    }

    /// Takes over the single clients that the old process had dropped. All are looked at, since the rules may be others. If the
    /// kernel does not list them they are let go: one that is still refused is dropped again soon.
    fn adopt(&mut self, now: Time) {
        let found = self.table.elements(NftSet::Clients).unwrap_or_else(|error| {
            tracing::warn!("the clients that the kernel drops are let go, it does not list them: {error}");
            Vec::new()
        });
        for NftElement { range, lasts } in found {
            let lasts = Span::from_nanos(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX));
            self.is_full |= !self.dropped.add(range, now.after(lasts));
        }
    }

    /// Reads bans and spared networks again. Returns whether clients may be dropped whom these rules do not refuse.
    fn follow_rules(&mut self, rules: &Rules, config: &RuntimeConfig, now: Time) -> bool {
        let spared = spared(rules, config);
        let refuses = rules.policy.limits.iter().any(|limit| limit.mode == Mode::Enforce);
        let are_other = match &self.policy {
            Some(policy) => !Arc::ptr_eq(policy, &rules.policy) || self.spared != spared,
            None => !refuses,
        };
        (self.spared, self.policy) = (spared, Some(Arc::clone(&rules.policy)));
        self.dropped.spare(&self.spared);
        let bans = rules.overrides.bans().iter();
        let bans = bans.filter(|ban| ban.clients.until > now && (refuses || ban.is_of_all_requests));
        let bans: Vec<_> = bans.map(|ban| (ban.clients.prefix.into(), ban.clients.until)).collect();
        let prefixes = flattened(&bans, &self.spared);
        let missing_in = |one: &[(AddressRange, Time)], other: &[(AddressRange, Time)]| {
            other.iter().filter(|prefix| one.binary_search(prefix).is_err()).count()
        };
        self.shown.added += missing_in(&self.prefixes, &prefixes);
        self.shown.removed += missing_in(&prefixes, &self.prefixes);
        self.are_prefixes_new |= self.prefixes != prefixes;
        (self.prefixes, self.generation) = (prefixes, Some(rules.generation));
        are_other
    }

    /// Looks at the buckets of a client; `None` if the store does not answer.
    fn review(
        &mut self,
        ip: IpAddr,
        engine: &Engine,
        rules: &Rules,
        runtime: Option<&Runtime>,
    ) -> Option<()> {
        let selector = BucketSelector::of_client(Client::from_ip(ip));
        let report = runtime?.block_on(engine.show(&selector)).ok()?;
        let now = engine.time();
        let is_exempt = report.buckets.iter().any(|view| view.exempt_until().is_some());
        // One that is dropped stays so until the end of its wait.
        let is_dropped = self.dropped.holds(ip);
        let refusals =
            report.buckets.iter().filter_map(|view| refused_for_long(view, rules, is_dropped, now));
        let refusals: Vec<_> = refusals.filter(|_| !is_exempt).collect();
        let refusal = refusals.iter().copied().max_by_key(|(_, until)| *until);
        if let Some((range, until)) = refusal.filter(|(range, _)| overlapping(&self.spared, range).is_empty())
        {
            // A wider one has clients in it whom nothing refuses.
            self.dropped.release_others(ip, &refusals);
            self.is_full |= !self.dropped.add(range, until);
            return Some(());
        }
        self.seen.insert(ip);
        self.dropped.release(ip);
        for network in report.buckets.iter().filter_map(|view| view.network).map(AddressRange::from) {
            // An address of a translator stands for another one.
            self.dropped.let_go(&network);
        }
        Some(())
    }

    /// Tells the kernel what has changed, or everything if it may know something else. `own` is the time of the process's
    /// clock, `now` the store's.
    fn tell(&mut self, own: Time, now: Time) -> Result<(), NftError> {
        let ElementChanges { added, removed } = self.dropped.take_changes(now);
        self.shown.added += added.len();
        self.shown.removed += removed.len();
        self.shown.elements = self.dropped.len() + self.prefixes.len();
        if !self.is_unsure && self.change(&added, &removed, now).is_ok() {
            return Ok(());
        }
        // Mostly an element has ended a moment earlier than expected: then all are written again.
        let is_early =
            self.is_unsure && self.tried.is_some_and(|tried| own.since(tried) < RETRY && own >= tried);
        self.is_unsure = true;
        if !is_early {
            self.tried = Some(own);
            let written = self.write_all(now);
            if written.is_ok() {
                (self.is_unsure, self.tried) = (false, None);
                return Ok(());
            }
            return written;
        }
        Ok(())
    }

    fn change(&mut self, added: &[NftElement], removed: &[NftElement], now: Time) -> Result<(), NftError> {
        if self.are_prefixes_new {
            self.table.replace(NftSet::Prefixes, &elements(&self.prefixes, now))?;
            self.are_prefixes_new = false;
        }
        self.table.change(NftSet::Clients, removed, added)
    }

    fn write_all(&mut self, now: Time) -> Result<(), NftError> {
        self.table.guard(&self.listeners)?;
        self.table.replace(NftSet::Prefixes, &elements(&self.prefixes, now))?;
        self.are_prefixes_new = false;
        let clients = self.dropped.take_all(now);
        self.table.replace(NftSet::Clients, &clients)
    }
}

/// The clients of a bucket that refuses them at every route until then, by a ban or the longest of growing waits.
fn refused_for_long(
    view: &BucketView,
    rules: &Rules,
    is_dropped: bool,
    now: Time,
) -> Option<(AddressRange, Time)> {
    let policy = &rules.policy;
    let at =
        policy.limits.iter().position(|limit| limit.name == view.limit && limit.kind == LimitKind::Rate)?;
    let limit = policy.limits.get(at)?;
    let refuses = limit.enforces() && limit.key == [KeyPart::Ip];
    if !refuses || !policy.routes.iter().all(|route| route.limits.contains(&at)) {
        return None;
    }
    let waits =
        view.level_of(LimitKind::Escalation).and_then(|level| match (level.spec, level.verdict.admission) {
            (Spec::Escalation(waits), Admission::Refused { wait })
                if is_dropped || wait > waits.longest_growing() =>
            {
                Some(now.after(wait))
            }
            _ => None,
        });
    let until = view.bucket_banned_until().max(waits)?;
    (is_dropped || until.since(now) >= SHORTEST).then_some((view.network?.into(), until))
}

/// Networks that are never dropped: of this machine, of trusted proxies, and those that a limit of addresses exempts.
fn spared(rules: &Rules, config: &RuntimeConfig) -> Vec<AddressRange> {
    let loopback = [(IpAddr::from([127, 0, 0, 0]), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
    let loopback = loopback.into_iter().filter_map(|(ip, length)| IpNet::new(ip, length).ok());
    let trust = config.endpoints.iter().map(|endpoint| &endpoint.trust).chain([&config.client.trust]);
    let limits = || rules.policy.limits.iter().filter(|limit| limit.is_of_addresses());
    let networks = trust.chain(limits().map(|limit| &limit.exempt));
    let networks = networks.flat_map(|networks| networks.iter().map(|(net, ())| net));
    let networks = networks.chain(limits().flat_map(|limit| limit.rates.free_networks()));
    merged(loopback.chain(networks).map(AddressRange::from).collect())
}

fn elements(ranges: &[(AddressRange, Time)], now: Time) -> Vec<NftElement> {
    ranges
        .iter()
        .filter(|(_, until)| *until > now)
        .map(|(range, until)| element(*range, *until, now))
        .collect()
}

/// Where clients connect.
fn client_ports(sockets: &WorkerSockets) -> Vec<SocketAddr> {
    let of_clients = sockets.workers.iter().flatten().filter(|socket| socket.callers == Callers::Clients);
    let mut ports: Vec<SocketAddr> = of_clients.filter_map(BoundSocket::tcp_address).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// How often the thread looks by itself.
const TICK: Duration = Duration::from_secs(1);
/// The time in which changes are gathered.
const BETWEEN_BATCHES: Duration = Duration::from_millis(50);
/// Clients that are looked at for each batch; the next refused attempt of another one offers it again.
const MAX_LOOKS: usize = 500;
/// The time until a client is looked at again that was not to be dropped: over a shared store, that is a request.
const LOOK_AGAIN: Span = Span::from_secs(2);
/// The time until everything is written again that the kernel did not take.
const RETRY: Span = Span::from_secs(5);
/// The time until full sets are told of again.
const REMINDER: Span = Span::from_secs(60);
