//! `tollgate top` on a real terminal, against a gate whose answers were recorded and against a real one.

#![allow(
    clippy::unwrap_used,
    clippy::unreachable,
    clippy::disallowed_methods,
    reason = "these are tests, and they ask the real clock"
)]

#[cfg(feature = "top")]
mod live;
#[cfg(feature = "top")]
mod picture;
#[cfg(feature = "top")]
mod printed;
#[cfg(feature = "top")]
mod recorded_gate;
#[cfg(feature = "top")]
mod terminal;

#[cfg(not(feature = "top"))]
#[test]
fn a_build_without_the_feature_says_so() {
    let output = std::process::Command::new(support::binary()).arg("top").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("this build has no live view: build tollgate with the feature `top`"), "{error}");
}
