//! `tollgate run`: serve in the foreground until told to stop.

use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::app::App;
use crate::config::{Config, Sources};
use crate::observe::messages;

/// Runs the gate.
///
/// # Errors
/// If the configuration cannot be read or the gate cannot start.
pub(super) fn run(arguments: &ConfigArgs) -> anyhow::Result<Exit> {
    let sources = arguments.sources()?;
    let Some(config) = load_and_report(&sources) else { return Ok(Exit::BadConfiguration) };
    let _flush = messages::start(config.log.level, config.log.format)?;
    serve(config, &sources)?;
    Ok(Exit::Ok)
}

fn serve(config: Config, sources: &Sources) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let app = App::build(config)?;
        for address in app.addresses() {
            tracing::info!("listening at {address}");
        }
        for address in app.admin_addresses() {
            tracing::info!("metrics and health at {address}");
        }
        app.run(|| load_and_report(sources), std::future::pending()).await?;
        Ok(())
    })
}
