//! The layer: from a policy to what decides by it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Extensions;
use tollgate::app::{AppStartError, InProcessGate};
use tollgate::config::{Sources, load};
use tower_layer::Layer;

use crate::sender::{Sender, SenderOf};
use crate::service::TollgateService;

/// A layer that decides on requests by a policy. Its clones, and the services that it makes, share their buckets.
#[derive(Clone)]
pub struct TollgateLayer {
    gate: Arc<InProcessGate>,
    sender: Arc<SenderOf>,
}

/// Why there is no layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The file cannot be read.
    #[error("cannot read the policy {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The policy has mistakes: each with its line, and with what would be right.
    #[error("{0}")]
    Policy(String),
    /// The threads, the files or the store that it needs cannot be had.
    #[error(transparent)]
    Start(#[from] AppStartError),
}

impl TollgateLayer {
    /// By the policy in this file. Relative paths in it start from its directory, `${NAME}` is a variable of the
    /// environment, and a variable `TOLLGATE_STORE__URL` sets the key `store.url`, as for a gate.
    ///
    /// It starts threads, and reads files: call it once, before the program serves. A store that cannot be reached yet is no
    /// error. Warnings about the policy are events of `tracing`.
    ///
    /// # Errors
    /// [`LayerError`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, LayerError> {
        let path = path.as_ref();
        let sources = Sources::from_file(path);
        Self::of(sources.map_err(|error| LayerError::Read { path: path.to_owned(), error })?)
    }

    /// The same by a text, which the environment may change as well; mistakes are told with this name, and relative paths
    /// start from the working directory.
    ///
    /// # Errors
    /// [`LayerError`].
    pub fn from_text(name: &str, policy: &str) -> Result<Self, LayerError> {
        Self::of(Sources::from_text(name, policy))
    }

    /// The same layer, which finds the [`Sender`] of a request by its extensions. Without it, they hold one themselves.
    #[must_use]
    pub fn sender_from(self, sender: impl Fn(&Extensions) -> Option<Sender> + Send + Sync + 'static) -> Self {
        Self { sender: Arc::new(sender), ..self }
    }

    /// Waits until a shared store has what attempts that ended have got back, or `store.snapshot` all buckets, at most two
    /// seconds: for the end of a program. Without it a snapshot is at most three seconds old.
    pub async fn flush(&self) {
        self.gate.flush().await;
    }

    fn of(sources: Sources) -> Result<Self, LayerError> {
        let sources = sources.with_environment(std::env::vars_os()).within_a_program().with_included();
        let loaded = load(&sources);
        let Some(config) = loaded.config else {
            let mistakes = loaded.diagnostics.iter().filter(|found| found.is_error());
            let texts: Vec<String> = mistakes.map(|found| found.render(false)).collect();
            return Err(LayerError::Policy(texts.join("\n").trim_end().to_owned()));
        };
        let gate = Arc::new(InProcessGate::start(config, sources, &loaded.diagnostics)?);
        Ok(Self { gate, sender: Arc::new(|extensions: &Extensions| extensions.get::<Sender>().copied()) })
    }
}

impl<S> Layer<S> for TollgateLayer {
    type Service = TollgateService<S>;

    fn layer(&self, inner: S) -> TollgateService<S> {
        TollgateService::new(inner, Arc::clone(&self.gate), Arc::clone(&self.sender))
    }
}

impl fmt::Debug for TollgateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateLayer").finish_non_exhaustive()
    }
}
