//! The shared file of credentials, as Amazon's command line writes it.
//!
//! Only keys in the file itself are read; nothing is run or requested for them. The file is read again every minute, so
//! that keys changed in it come into force without a restart.

use std::io::ErrorKind;
use std::path::Path;

use super::super::sign::AwsKeys;
use super::{CredentialsError, FoundKeys};
use tollgate_bucket::{Span, Time};

/// The keys of a profile; `None` if there is no such file, or if it has none for the profile.
pub(super) async fn read(
    path: &Path,
    profile: &str,
    now: Time,
) -> Result<Option<FoundKeys>, CredentialsError> {
    match tokio::fs::read_to_string(path).await {
        Ok(text) => {
            let keys = keys(&text, profile)?;
            Ok(keys.map(|keys| FoundKeys { renew: Some(now.after(AGAIN)), ..FoundKeys::lasting(keys) }))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CredentialsError::File(error)),
    }
}

fn keys(text: &str, wanted: &str) -> Result<Option<AwsKeys>, CredentialsError> {
    let mut is_wanted = false;
    let (mut access, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_wanted = name.trim() == wanted;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_wanted) {
            let slot = match name.trim() {
                "aws_access_key_id" => &mut access,
                "aws_secret_access_key" => &mut secret,
                "aws_session_token" => &mut token,
                _ => continue,
            };
            *slot = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    if access.is_none() && secret.is_none() {
        return Ok(None);
    }
    let keys = access.zip(secret).and_then(|(access, secret)| AwsKeys::new(access, secret, token));
    keys.ok_or_else(|| CredentialsError::IncompleteKeys(wanted.to_owned())).map(Some)
}

/// How long the keys are used before the file is read again.
const AGAIN: Span = Span::from_secs(60);
