//! `tollgate run`: serve in the foreground until told to stop.

use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::app::App;
use crate::config::{Config, Sources, load};
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

/// Reads the files that the configuration names once more; what is wrong with them goes to the log.
fn read_again(sources: &Sources) -> Option<Config> {
    let loaded = load(sources);
    for diagnostic in loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()) {
        tracing::error!("{} ({}): the rules stay as they are", diagnostic.message, diagnostic.file());
    }
    loaded.config
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
        app.run(|| read_again(sources), std::future::pending()).await?;
        Ok(())
    })
}
