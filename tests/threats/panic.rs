//! A panic while a request is served: that connection ends, and no other is affected.
//!
//! The gate has no known way to panic, so this one is built into a listener to events, which runs on the request
//! path; the rest are the gate's own workers on real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]
#![allow(clippy::panic, reason = "a panic is what this is about")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use support::{Client, ONE_AN_HOUR, Upstream, get_with, post_with};
use tollgate::config::{self, Config, Sources};
use tollgate::engine::Engine;
use tollgate::event::{ConnectionEvent, Event, EventListener, Events};
use tollgate::net::connection_limit::ConnectionLimit;
use tollgate::net::inherited::InheritedSockets;
use tollgate::net::listener::ListenAddress;
use tollgate::net::shutdown;
use tollgate::proxy::body::{BodyMemories, BodySearches};
use tollgate::proxy::downstream::worker;
use tollgate::proxy::headers::request_id::RequestIds;
use tollgate::proxy::runtime_config::{ConfigHandle, RuntimeConfig};
use tollgate::proxy::transaction::server::Server;
use tollgate::proxy::upstream::Health;
use tollgate::time::Clock;

/// Panics whenever a limit decides, and counts what is said of it.
#[derive(Default)]
struct Explosive {
    panics: AtomicUsize,
    present: AtomicUsize,
}

impl EventListener for Explosive {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::Decided { .. } => panic!("as the test wants it"),
            Event::Panicked => _ = self.panics.fetch_add(1, Ordering::Relaxed),
            Event::Connection(ConnectionEvent::Opened) => _ = self.present.fetch_add(1, Ordering::Relaxed),
            Event::Connection(ConnectionEvent::Closed) => _ = self.present.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// H14: a panic ends its own connection, is counted, and leaves no lock behind that would fail others.
#[test]
fn a_panic_ends_one_connection_and_is_counted() {
    let upstream = Upstream::start();
    let text = format!("listen = \"http://127.0.0.1:0\"\n{}", upstream.file(ONE_AN_HOUR));
    let config = config::load(&Sources::from_text("test", &text)).config.expect("a good file");
    let explosive = Arc::new(Explosive::default());
    let address = serve(&config, Arc::clone(&explosive));
    let mut bystander = Client::connect(address);
    bystander.send(get_with("/", ""));
    assert_eq!(bystander.answer().status, 200);
    for number in 1..=5 {
        let mut victim = Client::connect(address);
        victim.send(post_with("/login", ""));
        assert!(victim.try_answer().is_none(), "its connection ends");
        let counted = || explosive.panics.load(Ordering::Relaxed) == number;
        assert!(support::eventually(std::time::Duration::from_secs(5), counted), "it is counted");
        bystander.send(get_with("/", ""));
        assert_eq!(bystander.answer().status, 200, "an open connection goes on");
        let mut newcomer = Client::connect(address);
        newcomer.send(get_with("/", "Connection: close\r\n"));
        assert_eq!(newcomer.answer().status, 200, "a new connection is served");
    }
    let alone = || explosive.present.load(Ordering::Relaxed) == 1;
    assert!(
        support::eventually(std::time::Duration::from_secs(5), alone),
        "the places of the others are free again"
    );
}

/// One worker of a gate; its thread ends with the test's process.
fn serve(config: &Config, listener: Arc<Explosive>) -> SocketAddr {
    let sockets = config.front.listen[0].bind(1, &mut InheritedSockets::default()).unwrap();
    let ListenAddress::Tcp(address) = *sockets[0].address() else { panic!("a TCP address") };
    let (clock, events) = (Clock::system(), Events::from_iter([listener as Arc<dyn EventListener>]));
    let engine = Engine::new(config.policy.clone(), 1000, clock.clone(), events.clone()).unwrap();
    let guard = ConnectionLimit::new(100, 100, None, &clock);
    let health = Health::new(config.upstreams[0][0].clone(), 10, clock, events.clone());
    let site = RuntimeConfig {
        rules: Arc::clone(&engine.rules()),
        client: config.client.clone(),
        refuse: Arc::new(config.refuse.clone()),
        endpoints: Vec::new(),
        settings: Arc::new(config.proxy.clone()),
        tls_acceptor: None,
        redirect: None,
        validation_hosts: None,
        upstreams: vec![vec![health]],
        probes: Arc::default(),
    };
    let (trigger, shutdown) = shutdown::channel();
    // This worker is never stopped.
    std::mem::forget(trigger);
    std::thread::spawn(move || {
        worker::run(sockets, Arc::new(guard), shutdown, Arc::default(), || Server {
            tracer: None,
            engine: Arc::new(engine),
            config: ConfigHandle::new(Arc::new(ArcSwap::from_pointee(site))),
            events,
            open_attempts: Arc::new([]),
            ids: RequestIds::default(),
            refusal_cache: Default::default(),
            refused_heads: Default::default(),
            refusal_rate: Default::default(),
            unread_bodies: Default::default(),
            body_memory: BodyMemories::new(1 << 20),
            body_searches: BodySearches::start(1, || ()).expect("a thread"),
        })
    });
    address
}
