//! The chain of key sources, asked one after the other.
//!
//! The first source that is set up decides: if it gives no keys, no later one is asked, because an operator who names a
//! profile does not want the machine's own role. Single sign-on, assumed roles and web identities are not supported.

use std::path::PathBuf;

use super::super::sign::AwsKeys;
use super::metadata::{ContainerService, InstanceMetadata};
use super::{CredentialsError, FoundKeys, WrongKeySource, file};
use tollgate_base::time::Clock;

/// The sources of keys, in order.
pub(in super::super) struct KeySourceChain(Vec<KeySource>);

enum KeySource {
    Given(AwsKeys),
    File {
        path: PathBuf,
        profile: String,
        /// The environment names the file or the profile, so it must exist.
        is_named: bool,
    },
    Container(ContainerService),
    Instance(InstanceMetadata),
    Wrong(WrongKeySource),
}

impl KeySourceChain {
    /// These keys and no others, or the sources that the environment names.
    pub(in super::super) fn new(
        given: Option<AwsKeys>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let environment = |name: &str| environment(name).filter(|value| !value.is_empty());
        if let Some(keys) = given {
            return Self(vec![KeySource::Given(keys)]);
        }
        let access = environment("AWS_ACCESS_KEY_ID");
        let secret = environment("AWS_SECRET_ACCESS_KEY");
        if let (Some(access), Some(secret)) = (access, secret) {
            let keys = AwsKeys::new(access, secret, environment("AWS_SESSION_TOKEN"));
            return Self(vec![keys.map_or(KeySource::Wrong(WrongKeySource::Keys), KeySource::Given)]);
        }
        let mut sources: Vec<_> = shared_file(&environment).into_iter().collect();
        match ContainerService::new(&environment) {
            Ok(container) => sources.extend(container.map(KeySource::Container)),
            Err(wrong) => sources.push(KeySource::Wrong(wrong)),
        }
        let is_off =
            environment("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"));
        if !is_off {
            let instance = InstanceMetadata::new(environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").as_deref());
            sources.push(instance.map_or_else(KeySource::Wrong, KeySource::Instance));
        }
        Self(sources)
    }

    /// Keys from the first source that is set up.
    pub(super) async fn find(&self, clock: &Clock) -> Result<FoundKeys, CredentialsError> {
        for source in &self.0 {
            if let Some(found) = source.find(clock).await? {
                return Ok(found);
            }
        }
        Err(CredentialsError::NoSource)
    }
}

impl KeySource {
    /// `None` if it is not set up.
    async fn find(&self, clock: &Clock) -> Result<Option<FoundKeys>, CredentialsError> {
        match self {
            Self::Given(keys) => Ok(Some(FoundKeys::lasting(keys.clone()))),
            Self::Wrong(why) => Err(why.clone().into()),
            Self::File { path, profile, is_named } => {
                let found = file::read(path, profile, clock.now()).await?;
                if found.is_none() && *is_named {
                    return Err(CredentialsError::NoKeys(profile.clone()));
                }
                Ok(found)
            }
            Self::Container(container) => {
                container.find(clock).await.map(Some).map_err(CredentialsError::Container)
            }
            Self::Instance(instance) => {
                instance.find(clock).await.map(Some).map_err(CredentialsError::Instance)
            }
        }
    }
}

fn shared_file(environment: &impl Fn(&str) -> Option<String>) -> Option<KeySource> {
    let named = environment("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let profile = environment("AWS_PROFILE");
    let is_named = named.is_some() || profile.is_some();
    let usual = || environment("HOME").map(|home| PathBuf::from(home).join(".aws/credentials"));
    let profile = profile.unwrap_or_else(|| "default".to_owned());
    Some(KeySource::File { path: named.or_else(usual)?, profile, is_named })
}
