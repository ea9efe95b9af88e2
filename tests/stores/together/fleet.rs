//! Several gates on one store, and the application behind them, which counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Gate, Launch, Reply, Upstream};

/// Gates that share a store.
pub(crate) struct Fleet {
    pub(crate) gates: Vec<Gate>,
    _upstream: Upstream,
    arrived: Arc<AtomicUsize>,
}

/// How they are started.
pub(crate) struct Plan<'a> {
    pub(crate) url: String,
    /// What stands in `[limit.address]`, and behind it.
    pub(crate) limit: &'a str,
    /// `store.timeout` and `store.on_error`.
    pub(crate) manner: (&'a str, &'a str),
    /// For each gate its environment.
    pub(crate) environments: Vec<Vec<(String, String)>>,
}

impl<'a> Plan<'a> {
    /// Four gates with one limit over the store at this address, with a long time-out.
    ///
    /// An attempt decided without the store is not decided exactly, so a run that shows exactness waits longer than
    /// the default of 50 ms, for a busy machine.
    pub(crate) fn patient(url: String, limit: &'a str) -> Self {
        Self { url, limit, manner: ("2s", "local"), environments: vec![Vec::new(); GATES] }
    }

    /// One gate with this limit and without a store.
    pub(crate) fn alone(limit: &'a str) -> Self {
        Self { environments: vec![Vec::new()], ..Self::patient("memory:".to_owned(), limit) }
    }

    /// Starts them, with the tables that the store wants.
    pub(crate) fn start(&self) -> Fleet {
        prepare(&self.url);
        let arrived = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&arrived);
        let upstream = Upstream::answering(move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            Reply::ok()
        });
        let (url, (timeout, on_error)) = (&self.url, self.manner);
        let shared = match &url[..] {
            "memory:" => String::new(),
            _ => format!(
                "[store]\nurl = \"{url}\"\nsecret = \"one secret for all of these gates together\"\ntimeout = \"{timeout}\"\non_error = \"{on_error}\"\n"
            ),
        };
        let file = upstream.file(&format!(
            "[route.login]\nmatch = \"POST /login\"\n[limit.address]\n{}\n{shared}[proxy]\nthreads = 1\n",
            self.limit
        ));
        let launch = |environment: &Vec<(String, String)>| {
            let launch = Launch::new(&file);
            environment.iter().fold(launch, |launch, (name, value)| launch.environment(name, value)).start()
        };
        let gates = self.environments.iter().map(launch).collect();
        Fleet { gates, _upstream: upstream, arrived }
    }
}

impl Fleet {
    /// Where clients connect, in order.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.gates.iter().map(|gate| gate.address).collect()
    }

    /// How many requests reached the application.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    /// The sum over all gates of a metric with these labels.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counters")]
    pub(crate) fn total(&self, name: &str, labels: &str) -> u64 {
        self.gates.iter().map(|gate| gate.metric(name, labels)).sum::<f64>() as u64
    }

    /// No attempt was decided without the store, and nothing has panicked.
    pub(crate) fn assert_all_by_store(&self) {
        assert_eq!(self.total("tollgate_store_fallbacks_total", ""), 0, "everything was asked of the store");
        assert_eq!(self.total("tollgate_panics_total", ""), 0);
    }
}

fn prepare(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address: tollgate::store::StoreAddress = url.parse().unwrap();
    let store = {
        let _within = runtime.enter();
        address.open(&tollgate::store::Namespace::default())
    };
    if let Some(store) = store {
        runtime.block_on(store.unwrap().migrate()).unwrap();
    }
}

/// As many as the issue of shared buckets is about.
pub(crate) const GATES: usize = 4;
