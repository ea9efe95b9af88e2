//! Fetches the lists of `[lists]` again and again, each on its own schedule.
//!
//! A list that was fetched is a file of the state directory: the reload notices its change, a restart finds it, and an
//! answer that is no list leaves it as it is. How lists are written is left to `config/lists/formats.rs`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use http::HeaderName;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_base::download::{DownloadError, is_https, text_at};
use tollgate_base::tls::{self, Trust};

use super::sandbox::Broker;
use crate::config::lists::FetchedList;
use crate::config::lists::formats::{ListFault, ListFormat, is_private, networks};
use crate::store::snapshot::replace_file;

/// The lists of the running configuration, each with its task.
pub(super) struct ListFetches {
    lists: Vec<FetchedList>,
    tasks: JoinSet<()>,
}

impl ListFetches {
    /// For a gate that starts with these lists.
    pub(super) fn new(lists: Vec<FetchedList>) -> Self {
        Self { lists, tasks: JoinSet::new() }
    }

    /// Takes over the lists of another configuration.
    pub(super) fn set(&mut self, lists: Vec<FetchedList>) {
        if lists != self.lists {
            // Dropping the tasks ends them.
            *self = Self::new(lists);
        }
    }

    /// Begins to fetch, unless that was begun before. Needs a tokio runtime.
    pub(super) fn start(&mut self, broker: &Broker) {
        if self.tasks.is_empty() {
            for list in &self.lists {
                let schedule = ListSchedule { list: list.clone(), broker: broker.clone(), is_failing: false };
                self.tasks.spawn(schedule.keep());
            }
        }
    }
}

/// Why a list stays as it is.
#[derive(Debug, thiserror::Error)]
enum ListFetchError {
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error(transparent)]
    Fault(#[from] ListFault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Keeps one list.
struct ListSchedule {
    list: FetchedList,
    broker: Broker,
    is_failing: bool,
}

impl ListSchedule {
    /// Never ends.
    async fn keep(mut self) {
        let every = self.list.every.to_std();
        let (path, head) = (self.list.path.clone(), head(&self.list));
        let age = self.broker.run(move || age(&path, &head)).await.ok().flatten();
        sleep(age.map_or(Duration::ZERO, |age| every.saturating_sub(age).max(PAUSE))).await;
        let mut retry = RETRY;
        loop {
            match self.fetch().await {
                Ok(()) => {
                    retry = RETRY;
                    sleep(every).await;
                }
                Err(error) => {
                    self.tell(&error);
                    sleep(retry.min(every)).await;
                    retry = retry.saturating_mul(2);
                }
            }
        }
    }

    async fn fetch(&mut self) -> Result<(), ListFetchError> {
        let FetchedList { name, url, format, key, path, .. } = &self.list;
        let key = key.clone().map(|key| (HeaderName::from_static("x-api-key"), key));
        let trust = match is_https(url) {
            true => Some(roots(&self.broker).await?),
            false => None,
        };
        let text = text_at(url.clone(), key, trust.as_ref()).await?;
        let (path, head, format) = (path.clone(), head(&self.list), *format);
        let take = move || take(&path, head, format, &text);
        let (count, is_other) = self.broker.run(take).await??;
        if is_other || self.is_failing {
            tracing::info!("[lists]: `{name}` has {count} networks now");
        }
        self.is_failing = false;
        Ok(())
    }

    fn tell(&mut self, error: &ListFetchError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!("[lists]: `{}` was not fetched ({error}): it stays as it is", self.list.name);
        }
    }
}

/// A confined thread may not read the roots of the system.
async fn roots(broker: &Broker) -> io::Result<Trust> {
    let read = || {
        let roots = tls::system().map_err(io::Error::other)?;
        Ok(Trust::new(roots).map_err(io::Error::other)?.for_http1())
    };
    broker.run(read).await.and_then(|trust| trust)
}

/// How the file of a list begins: another address is asked at once. It may hold a secret, and is hashed.
fn head(list: &FetchedList) -> String {
    let hash = Sha256::digest(format!("{} {:?}", list.url, list.format));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("# written by tollgate, for the address {hash}: what is changed here is lost\n")
}

/// How old a file with this beginning is; `None` if there is none.
fn age(path: &Path, head: &str) -> Option<Duration> {
    fs::read_to_string(path).ok().filter(|text| text.starts_with(head))?;
    let changed = fs::metadata(path).ok()?.modified().ok()?;
    // A time in the future says nothing.
    changed.elapsed().ok()
}

/// Writes the networks of an answer, one a line, without those that may be the operator's own. Their number, and whether
/// they are others than before.
fn take(path: &Path, head: String, format: ListFormat, text: &str) -> Result<(usize, bool), ListFetchError> {
    let mut networks = networks(format, text)?;
    networks.retain(|net| !is_private(net));
    let lines: String = networks.iter().map(|net| format!("{net}\n")).collect();
    let text = head + &lines;
    let is_other = !fs::read(path).is_ok_and(|before| before == text.as_bytes());
    if is_other {
        replace_file(path, text.as_bytes())?;
    }
    Ok((networks.len(), is_other))
}

/// From the start to a fetch of a list that is there.
const PAUSE: Duration = Duration::from_secs(10);
/// After a failure; then twice as long each time, up to `every`.
const RETRY: Duration = Duration::from_secs(60);
