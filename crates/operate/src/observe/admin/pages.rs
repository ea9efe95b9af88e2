//! The pages of the admin API as types: the gate writes them, its commands read them, and `openapi` describes them.

mod requests;

use tollgate_grammar::diagnostic::DiagnosticRecord;
use tollgate_grammar::record::Optional;
use tollgate_grammar::records;

pub use self::requests::{
    BanRequest, CreditRequest, ExplainedRequest, ForgetRequest, LastingRequest, LimitRequest, ModeRequest,
    PrefixRequest, RateRequest, ResetRequest,
};

records! {
    /// The gate as a whole.
    pub StatusPage {
        /// The version of the program.
        version: String,
        /// The process.
        pid: u32,
        /// "observe" if no limit refuses anything, else "enforce".
        mode: String,
        /// Modes that operators gave for a while.
        modes: Vec<ModePage>,
        /// "running" or "draining".
        state: String,
        /// When it began.
        since: String,
        /// Seconds since then.
        uptime: u64,
        /// Where clients connect.
        listen: Vec<String>,
        /// Where other proxies ask.
        endpoints: Vec<EndpointPart>,
        /// Where operators connect.
        admin: Vec<String>,
        /// Worker threads.
        workers: u64,
        /// Connections of clients.
        connections: u64,
        /// What of the sandbox is in force.
        sandbox: String,
        /// Where buckets live.
        store: StorePart,
        /// The applications.
        upstreams: Vec<UpstreamPart>,
        /// What may be wired wrongly.
        warnings: Vec<String>,
        /// Routes under attack.
        attacks: Vec<String>,
        /// The file in force.
        config: FilePart,
        /// The policy of the store; null for a gate that has its policy from its file.
        policy: Option<PolicyPart>,
        /// The audit log; null where there is none.
        audit: Option<AuditPart>,
    }

    /// An audit log.
    pub AuditPart {
        /// Its file.
        file: String,
        /// The hash of the last line that this gate wrote or found.
        head: String,
        /// Lines of this process that the shared store has not yet; null until it has had all lines once, and where no store takes them.
        waiting: Option<u64>,
    }

    /// A decision endpoint.
    pub EndpointPart {
        /// Its name.
        name: String,
        /// Its kind.
        kind: String,
        /// Its addresses.
        listen: Vec<String>,
        /// Attempts without a report.
        open: u64,
    }

    /// Where buckets live.
    pub StorePart {
        /// Its address, without secrets.
        url: String,
        /// Whether it answers.
        up: bool,
    }

    /// An application.
    pub UpstreamPart {
        /// Its address.
        upstream: String,
        /// Whether it answers.
        up: bool,
        /// Requests in flight.
        requests: u64,
        /// Why its last health check failed, if it did.
        check_failure: Option<String>,
    }

    /// A configuration in force.
    pub FilePart {
        /// The name of the file.
        name: String,
        /// A hash of its text, of those that it includes, and of its overrides.
        hash: String,
        /// When it was read.
        read: String,
    }

    /// A policy of the store in force.
    pub PolicyPart {
        /// Its version.
        version: u64,
        /// A hash of its text.
        hash: String,
        /// One that this gate cannot take.
        refused: Option<RefusedPolicy>,
    }

    /// A policy that the gate cannot take.
    pub RefusedPolicy {
        /// Its version.
        version: u64,
        /// Why.
        why: String,
    }

    /// The limits in force.
    pub LimitsPage {
        /// In the order of the file.
        limits: Vec<LimitPart>,
    }

    /// A limit in force.
    pub LimitPart {
        /// Its name.
        name: String,
        /// Its mode in force.
        mode: String,
        /// Its mode in the file.
        configured_mode: String,
        /// When the mode in force ends, if it is another one for a while.
        mode_until: Option<String>,
        /// What has a bucket each.
        key: String,
        /// What it lets through, in words.
        spec: String,
        /// The limit that this candidate may replace.
        candidate_of: Option<String>,
        /// Routes that it applies to.
        routes: Vec<String>,
        /// Buckets that are not full.
        buckets: u64,
        /// Live buckets that were evicted.
        forgotten: u64,
        /// Decisions since the start.
        decisions: DecisionCounts,
    }

    /// Decisions of a limit.
    pub DecisionCounts {
        /// Attempts that it had the tokens for.
        admit: u64,
        /// Attempts that it refused.
        refuse: u64,
        /// Attempts that it would have refused, if it did not only observe.
        observe: u64,
        /// Attempts of clients that it does not see.
        exempt: u64,
    }

    /// The clients that attempt most.
    pub ClientsPage {
        /// The minutes over which attempts are counted.
        minutes: u64,
        /// When they began.
        since: String,
        /// "refused" or "attempts": the order.
        by: String,
        /// Each under a limit.
        clients: Vec<ClientPart>,
    }

    /// A client or an account under a limit.
    pub ClientPart {
        /// The limit.
        limit: String,
        /// The client, an address or a prefix; null for an account.
        client: Option<String>,
        /// The account, as a keyed hash; null for a client.
        account: Option<String>,
        /// Attempts.
        attempts: u64,
        /// Refused ones of these.
        refused: u64,
        /// By so much the counts may be too low.
        error: u64,
        /// The mode of the limit: where it is not "enforce", `refused` are the attempts that would have been refused.
        mode: Optional<String>,
        /// The last attempt.
        last: String,
        /// Tokens that are left.
        tokens: Optional<i64>,
        /// The size of the bucket.
        burst: Optional<u32>,
        /// Seconds until the next token.
        next: Optional<f64>,
        /// When the bucket is full.
        full_at: Optional<String>,
    }

    /// Buckets with a temporary rate.
    pub RatesPage {
        /// At most 1,000.
        rates: Vec<RatePart>,
        /// All of them.
        total: u64,
    }

    /// A bucket with a temporary rate.
    pub RatePart {
        /// The limit.
        limit: String,
        /// The client; null for an account.
        client: Option<String>,
        /// The account, as a keyed hash; null for a client.
        account: Option<String>,
        /// The size of the bucket.
        burst: u32,
        /// Seconds for a token.
        seconds_per_token: f64,
        /// When it ends.
        until: String,
    }

    /// Attempts of the last hour. A step before the start of the gate is null.
    pub HistoryPage {
        /// The length of a step.
        seconds: u64,
        /// The end of the last step, in seconds since 1970.
        end: u64,
        /// Admitted attempts, the oldest step first.
        admitted: Vec<Option<u64>>,
        /// Refused ones.
        refused: Vec<Option<u64>>,
        /// Admitted ones for which an observing limit lacked the tokens.
        observed: Vec<Option<u64>>,
    }

    /// A reload that was taken.
    pub ReloadPage {
        /// What has changed, in words.
        changes: String,
        /// Warnings.
        diagnostics: Vec<DiagnosticRecord>,
    }

    /// A drain that begins.
    pub DrainPage {
        /// True.
        draining: bool,
    }

    /// What a text would mean.
    pub CheckPage {
        /// "observe" or "enforce"; null after a mistake.
        mode: Option<String>,
        /// Whether there is no mistake.
        ok: bool,
        /// Mistakes and warnings, at most 200.
        diagnostics: Vec<DiagnosticRecord>,
        /// More of them.
        left_out: Optional<u64>,
        /// What each limit lets through.
        limits: Vec<WorstCasePart>,
        /// What each route lets through.
        routes: Vec<RouteBoundsPart>,
    }

    /// What a limit lets through.
    pub WorstCasePart {
        /// Its name.
        limit: String,
        /// In words.
        worst_case: String,
    }

    /// What a route lets through, by all of its limits.
    pub RouteBoundsPart {
        /// Its name.
        route: String,
        /// In words.
        worst_case: String,
        /// Each for those who share a bucket.
        bounds: Vec<BoundPart>,
        /// Whether there is a bound on all attackers together.
        bounded: bool,
    }

    /// A bound.
    pub BoundPart {
        /// For whom.
        who: String,
        /// Attempts at once.
        at_once: u64,
        /// Attempts in a day.
        in_a_day: u64,
    }

    /// What a request would meet.
    pub ExplainPage {
        /// In their order.
        steps: Vec<ExplainPart>,
    }

    /// A step of an explanation.
    pub ExplainPart {
        /// Its name; empty for more about the step before it.
        step: String,
        /// What happens.
        says: String,
    }

    /// Exempt prefixes.
    pub ExemptionsPage {
        /// Those in force.
        exemptions: Vec<PrefixPart>,
    }

    /// Banned prefixes.
    pub BansPage {
        /// Those in force.
        bans: Vec<PrefixPart>,
    }

    /// A prefix that is exempt or banned for a while.
    pub PrefixPart {
        /// The prefix.
        prefix: String,
        /// When it began.
        since: Optional<String>,
        /// When it ends.
        until: String,
        /// The operator: "uid 1000", or the address of a caller over TCP.
        by: Optional<String>,
        /// The reason, for the log.
        why: String,
        /// Whether a ban refuses every request, also those that no route counts.
        all: Optional<bool>,
    }

    /// A prefix that is exempt or banned no longer.
    pub EndedPage {
        /// The prefix.
        prefix: String,
        /// True.
        ended: bool,
    }

    /// A mode for a while.
    pub ModePage {
        /// The limit; null for all that are not off.
        limit: Option<String>,
        /// The mode.
        mode: String,
        /// When it ends; null for the next reload.
        until: Option<String>,
    }

    /// What was done about a person, or in a dry run what would be.
    pub ForgetPage {
        /// Whether it is over.
        done: bool,
        /// Whether nothing is changed.
        dry_run: bool,
        /// So far.
        places: Vec<ForgetPlace>,
    }

    /// A place that may name the person.
    pub ForgetPlace {
        /// Where.
        place: String,
        /// What is counted there.
        what: String,
        /// How many were removed.
        removed: u64,
        /// What stays, and why.
        note: Optional<String>,
        /// Why it was not reached.
        failed: Optional<String>,
    }

    /// Why a request was refused (RFC 9457).
    pub ProblemPage {
        /// "about:blank".
        kind("type"): String,
        /// The words of the status.
        title: String,
        /// The status.
        status: u16,
        /// What is wrong.
        detail: String,
        /// Mistakes and warnings of a file that was refused.
        diagnostics: Optional<Vec<DiagnosticRecord>>,
    }
}
