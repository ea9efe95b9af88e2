//! A configuration file: it is loaded, or there is a mistake that can be rendered.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::config::{Sources, combined, load, worst_case};

fuzz_target!(|text: &str| {
    // The base is no directory, so that no file of the machine is read.
    let sources = Sources { base: "/dev/null".into(), ..Sources::from_text("fuzz.toml", text) };
    if text.contains("@/") {
        return;
    }
    let loaded = load(&sources);
    for diagnostic in &loaded.diagnostics {
        let _ = (diagnostic.render(true), diagnostic.render(false), diagnostic.to_json());
    }
    let mistaken = loaded.diagnostics.iter().any(|diagnostic| diagnostic.is_error());
    assert_ne!(loaded.config.is_some(), mistaken, "a configuration or a mistake");
    for limit in loaded.config.iter().flat_map(|config| &config.policy.limits) {
        let _ = worst_case(limit);
    }
    if let Some(config) = &loaded.config {
        combined(&config.policy).iter().for_each(|route| drop(route.to_string()));
    }
});
