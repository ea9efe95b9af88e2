//! `tollgate run`: serve in the foreground until told to stop.

use clap::Args;

use super::Exit;
use super::sources::{ConfigArgs, load_with_addresses};
use crate::app::{App, Inherited, Signals, confine_writer};
use crate::config::{Config, Sources};
use crate::observe::messages;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Refuse nothing: every limit only observes, whatever its mode in the file; like --set mode=observe
    #[arg(long)]
    pub(super) observe: bool,
}

impl RunArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

/// Runs the gate.
///
/// # Errors
/// If the configuration cannot be read or the gate cannot start.
pub(super) fn run(arguments: &RunArgs) -> anyhow::Result<Exit> {
    let inherited = Inherited::from_env()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _within = runtime.enter();
        Signals::listen()
    };
    let mut sources = arguments.config.sources()?;
    if arguments.observe {
        // Also for reloads, which read the same sources again.
        sources = sources.with_set([("mode".to_owned(), "observe".to_owned())]);
    }
    let (sources, config) = load_with_addresses(sources);
    let Some(config) = config else { return Ok(Exit::BadConfiguration) };
    let confine = config.process.sandbox.then_some(confine_writer);
    let first = move || confine.into_iter().for_each(|confine| confine());
    let _flush = messages::start(config.log.level, config.log.format, first)?;
    let served = runtime.block_on(serve(config, sources, inherited, signals));
    // Does not wait for a read that may never end, as of a pipe.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}

async fn serve(
    config: Config,
    sources: Sources,
    inherited: Inherited,
    signals: Signals,
) -> anyhow::Result<()> {
    if config.process.observes {
        tracing::warn!("mode = \"observe\": no limit refuses anything");
    }
    let app = App::build(config, sources, inherited)?;
    for address in app.addresses() {
        tracing::info!("listening at {address}");
    }
    for (name, address) in app.endpoint_addresses() {
        tracing::info!("endpoint {name} at {address}");
    }
    for address in app.admin_addresses() {
        tracing::info!("metrics and health at {address}");
    }
    app.run(signals, std::future::pending()).await?;
    Ok(())
}
