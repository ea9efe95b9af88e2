//! `tollgate init --detect URL`: recognises an application by its pages, tries its preset with one wrong and, if asked, one
//! right sign-in, and proposes a route for an application without a preset.
//!
//! It says what it did on standard error, and hands back the arguments that a person would have typed. A server decides
//! nothing else: see [`site`] for the bounds, and [`proposal`] for what of its words is written.

mod html;
mod password;
mod proposal;
mod recognise;
mod sign_in;
mod site;

use std::path::Path;

use anyhow::{Context, bail, ensure};
use http::Uri;
use tollgate_base::tls::{self, Trust};

pub(super) use self::proposal::RouteProposal;
use self::recognise::{PresetSigns, RecognisedPreset, asks_for_basic, recognise};
use self::sign_in::{SignInCredentials, SignInKind, SignInVerdict, SignInWay, form_fields, form_of};
pub(super) use self::site::address;
use self::site::{FetchedPage, SignInRequest, SiteVisitor, directory, origin, resolved, shown};
use super::InitArgs;
use crate::cli::output::errln;
use crate::policy::outcome::Outcome;

/// The arguments with what was found out.
///
/// # Errors
/// If the site cannot be looked at or is not recognised, or a wrong password would count as right.
pub(super) fn detected(mut arguments: InitArgs, url: &str) -> anyhow::Result<InitArgs> {
    let start: Uri = url.parse()?;
    let trust = trust(&start, arguments.upstream_ca.as_deref())?;
    if arguments.upstream.is_empty() {
        arguments.upstream = vec![super::upstream(&origin(&start))?];
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut site, signs) = DetectedSite::look(SiteVisitor::new(trust), &start).await?;
        for one in &signs.weaker {
            errln!("there are weaker signs of the preset `{}`: {}", one.preset.name, one.found.join(", "));
        }
        let way = match &signs.best[..] {
            [] => site.propose(&mut arguments)?,
            [one] => site.take_preset(one, &mut arguments).await?,
            several => bail!("{}: {}", shown(url), in_doubt(several)),
        };
        match (way, arguments.only_look) {
            (_, true) => errln!("not tried: any sign-in (--only-look)"),
            (Some(way), false) => site.prove(way, &mut arguments).await?,
            (None, false) => {
                errln!("not tried: any sign-in, because scripts make the form, or it was not found")
            }
        }
        Ok(arguments)
    })
}

/// A site that was looked at.
struct DetectedSite {
    visitor: SiteVisitor,
    /// The path of the application, as an address that ends in a slash.
    base: Uri,
    pages: Vec<FetchedPage>,
}

impl DetectedSite {
    /// Looks at the site until a preset's markers are found, or a form.
    async fn look(mut visitor: SiteVisitor, start: &Uri) -> anyhow::Result<(Self, PresetSigns)> {
        let cannot = || format!("cannot look at {}", shown(&start.to_string()));
        let first = visitor.get(start).await.with_context(cannot)?;
        let base = base(start, &first.address).with_context(cannot)?;
        let others = if asks_for_basic(&first) { Vec::new() } else { further_pages(&first, &base) };
        let mut site = Self { visitor, base, pages: vec![first] };
        for other in others {
            if site.is_known() || site.visitor.left() <= FOR_SIGN_INS {
                break;
            }
            // A page that is not there says nothing.
            site.pages.extend(site.visitor.get(&other).await.ok());
        }
        let signs = recognise(&site.pages);
        Ok((site, signs))
    }

    fn is_known(&self) -> bool {
        let has_form = self.pages.iter().any(|page| form_of(page, &[], &[]).is_some());
        has_form || recognise(&self.pages).best.iter().any(|one| !one.markers.is_fallback)
    }

    /// Takes the preset, and finds out how it signs in.
    async fn take_preset(
        &mut self,
        RecognisedPreset { preset, markers, found }: &RecognisedPreset,
        arguments: &mut InitArgs,
    ) -> anyhow::Result<Option<SignInWay>> {
        let place = shown(&self.base.to_string());
        errln!("{place}: the preset `{}`, by {}", preset.name, found.join(", "));
        arguments.preset = Some(preset.name.to_owned());
        let policy = arguments.config().context("the preset gives no configuration")?.policy;
        let names = form_fields(&policy);
        let action = markers.action.as_ref().and_then(|path| resolved(&self.base, path));
        let by_form = |pages: &[FetchedPage]| {
            let has_passwords = !names.1.is_empty();
            has_passwords.then(|| SignInWay::by_form(pages, &names, action.as_ref())).flatten()
        };
        if let Some((path, body)) = &markers.json {
            let address = resolved(&self.base, path);
            let kind = address.zip(serde_json::from_str(body).ok());
            let token = markers.token.clone();
            let page = self.pages.last().map_or_else(|| self.base.clone(), |page| page.address.clone());
            return Ok(kind
                .map(|(address, body)| SignInWay { page, kind: SignInKind::Json { address, body, token } }));
        }
        for path in &markers.paths {
            match (by_form(&self.pages), resolved(&self.base, path)) {
                (Some(way), _) => return Ok(Some(way)),
                (None, Some(address)) if !arguments.only_look => {
                    self.pages.extend(self.visitor.get(&address).await.ok());
                }
                _ => {}
            }
        }
        let basic = self.pages.iter().find(|page| asks_for_basic(page));
        let by_basic = basic.map(|page| SignInWay { page: page.address.clone(), kind: SignInKind::Basic });
        Ok(by_form(&self.pages).or(by_basic))
    }

    /// Proposes a route for the first form with a password.
    fn propose(&self, arguments: &mut InitArgs) -> anyhow::Result<Option<SignInWay>> {
        let place = shown(&self.base.to_string());
        let mut forms = self.pages.iter().filter_map(|page| Some((page, form_of(page, &[], &[])?)));
        let (page, (form, fields)) = forms.next().with_context(|| {
            format!(
                "{place}: no preset's markers and no form with a password were found in {} pages; name the page with the \
                 form, or what is protected: --preset NAME, or --match 'POST /login'",
                self.pages.len()
            )
        })?;
        let address = resolved(&page.address, &form.action);
        let address = address.with_context(|| format!("{place}: its form is sent to another site"))?;
        let proposed = RouteProposal::of(form, fields, address.path(), address.query().is_some());
        let (pattern, proposal) = proposed.with_context(|| {
            format!("{place}: its form has names or an address that this command does not write: use --match")
        })?;
        errln!(
            "{place}: no preset's markers were found; a route is proposed from the form at {}",
            shown(page.address.path())
        );
        arguments.patterns = vec![pattern];
        arguments.proposal = Some(proposal);
        let page = page.address.clone();
        let kind = SignInKind::Form { users: Vec::new(), passwords: Vec::new(), action: None };
        Ok(Some(SignInWay { page, kind }))
    }

    /// Tries one wrong and perhaps one right password.
    async fn prove(&mut self, mut way: SignInWay, arguments: &mut InitArgs) -> anyhow::Result<()> {
        let takes_mail = self.page_of(&way).is_some_and(|page| way.takes_mail(page));
        let nobody =
            SignInCredentials::of_nobody(takes_mail).context("the system gives no random numbers")?;
        let Some(wrong) = self.sign_in(&way, &nobody).await.context("a wrong password")? else {
            errln!("not tried: any sign-in, because its form was not found again");
            return Ok(());
        };
        tell_wrong(arguments, &wrong, &nobody)?;
        let Some(user) = arguments.user.clone() else {
            errln!("not tried: a right password; --user NAME tries one");
            return Ok(());
        };
        let owner = SignInCredentials { password: password::read(&user)?, user };
        // As another browser would, with a new form and without cookies.
        self.visitor.forget();
        let page = self.visitor.get(&way.page).await.context("the form for the right password")?;
        way.page = page.address.clone();
        self.pages.push(page);
        let Some(right) = self.sign_in(&way, &owner).await.context("the right password")? else {
            errln!("not tried: the right password, because its form was not found again");
            return Ok(());
        };
        tell_right(arguments, &wrong, &nobody, &right, &owner);
        Ok(())
    }

    fn page_of(&self, way: &SignInWay) -> Option<&FetchedPage> {
        self.pages.iter().rev().find(|page| page.address == way.page)
    }

    /// One attempt, and its answer; `None` if nothing can be sent.
    async fn sign_in(
        &mut self,
        way: &SignInWay,
        who: &SignInCredentials,
    ) -> anyhow::Result<Option<TriedSignIn>> {
        let sent = self.page_of(way).and_then(|page| way.request(page, &self.visitor, who));
        let Some(sent) = sent else { return Ok(None) };
        let copy = SignInRequest {
            method: sent.method.clone(),
            address: sent.address.clone(),
            headers: sent.headers.clone(),
            body: sent.body.clone(),
        };
        Ok(Some(TriedSignIn { sent, answer: self.visitor.send(copy).await? }))
    }
}

/// A sign-in that was sent, and its answer.
struct TriedSignIn {
    sent: SignInRequest,
    answer: FetchedPage,
}

impl TriedSignIn {
    fn verdict(&self, arguments: &InitArgs, who: &SignInCredentials) -> Option<SignInVerdict> {
        Some(SignInVerdict::of(&arguments.config()?.policy, &self.sent, &self.answer, &who.user))
    }
}

/// Says what the configuration makes of a wrong password, and refuses one that makes it a success.
fn tell_wrong(arguments: &InitArgs, wrong: &TriedSignIn, nobody: &SignInCredentials) -> anyhow::Result<()> {
    let verdict = wrong.verdict(arguments, nobody).context("there is no valid configuration")?;
    let place = format!("{} {}", wrong.sent.method, shown(wrong.sent.address.path()));
    ensure!(
        verdict.is_counted,
        "the application signs in by {place}, which is no attempt to the preset: paste what `tollgate presets {}` prints, \
         and add the path to its `match`",
        arguments.preset.as_deref().unwrap_or_default()
    );
    let status = verdict.status.as_u16();
    match verdict.outcome {
        Outcome::Success => bail!(
            "a wrong password by {place} is answered {status}, which would count as a success, so nothing is written: \
             write the rules of the outcome yourself"
        ),
        _ if wrong.answer.tells_nothing() => errln!(
            "warning: a wrong password by {place}: answered {status}, which tells nothing about passwords: the rules are not \
             proved"
        ),
        Outcome::Failure => {
            errln!("a wrong password by {place}: answered {status}, a failure, as it should be")
        }
        _ => errln!(
            "a wrong password by {place}: answered {status}, neither failure nor success: it costs nothing"
        ),
    }
    if !verdict.names_account {
        errln!("warning: the account of this sign-in was not found in it: limits by account do not see it");
    }
    Ok(())
}

/// Says what the configuration makes of the right password; the rules of a proposal are made by both answers.
fn tell_right(
    arguments: &mut InitArgs,
    wrong: &TriedSignIn,
    nobody: &SignInCredentials,
    right: &TriedSignIn,
    owner: &SignInCredentials,
) {
    let name = shown(&owner.user);
    if let Some(proposal) = arguments.proposal.clone() {
        let candidates = proposal.with_rules(&wrong.answer, &right.answer);
        let outcome =
            |tried: &TriedSignIn, who, of: &InitArgs| tried.verdict(of, who).map(|verdict| verdict.outcome);
        let fits = |candidate: &InitArgs| {
            outcome(wrong, nobody, candidate) == Some(Outcome::Failure)
                && outcome(right, owner, candidate) == Some(Outcome::Success)
        };
        let proposed =
            candidates.into_iter().map(|proposal| InitArgs { proposal: Some(proposal), ..arguments.clone() });
        if let Some(better) = proposed.into_iter().find(fits) {
            *arguments = better;
        }
    }
    let Some(verdict) = right.verdict(arguments, owner) else { return };
    let status = verdict.status.as_u16();
    let tells = match (&arguments.proposal, arguments.application()) {
        (Some(proposal), _) => proposal.tells_successes,
        (None, application) => application.is_some_and(|preset| preset.tells_successes()),
    };
    match (verdict.outcome, tells) {
        (Outcome::Success, _) => errln!("the password of {name}: answered {status}, a success"),
        (Outcome::Neutral, _) => {
            errln!("the password of {name}: answered {status}, neither failure nor success")
        }
        (_, true) => errln!(
            "warning: the password of {name}: answered {status}, which counts as a failure. The password may be wrong, or a \
             second step follows"
        ),
        (_, false) => errln!(
            "the password of {name}: answered {status}. No answer is taken for a success, so every attempt costs a token"
        ),
    }
}

fn in_doubt(several: &[RecognisedPreset]) -> String {
    let each = several.iter().map(|one| format!("`{}` (by {})", one.preset.name, one.found.join(", ")));
    let each: Vec<_> = each.collect();
    format!("it may be {}: choose with --preset NAME", each.join(" or "))
}

/// The application's own path: that of the address, as a directory.
fn base(start: &Uri, reached: &Uri) -> Option<Uri> {
    let as_directory = format!("{}/", start.path());
    let is_directory = !start.path().ends_with('/') && reached.path().starts_with(&as_directory);
    resolved(start, if is_directory { &as_directory } else { directory(start) })
}

/// Where a form may be: behind links that say so, then where applications often have it.
fn further_pages(first: &FetchedPage, base: &Uri) -> Vec<Uri> {
    let says_so = |link: &&String| {
        let link = link.to_ascii_lowercase();
        !link.contains("logout") && SIGN_IN_WORDS.iter().any(|word| link.contains(word))
    };
    let links = first.html.links.iter().filter(says_so).filter_map(|link| resolved(&first.address, link));
    let mut all: Vec<Uri> = Vec::new();
    for page in links.take(MAX_LINKS).chain(WELL_KNOWN.iter().filter_map(|path| resolved(base, path))) {
        if page != first.address && !all.contains(&page) {
            all.push(page);
        }
    }
    all
}

fn trust(address: &Uri, file: Option<&Path>) -> anyhow::Result<Option<Trust>> {
    if address.scheme_str() != Some("https") {
        return Ok(None);
    }
    let roots = match file {
        Some(file) => {
            let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            tls::of_pem(&text).with_context(|| format!("cannot use {}", file.display()))?
        }
        None => tls::system()?,
    };
    Ok(Some(Trust::new(roots)?.for_http1()))
}

/// Requests that are kept for the form and two sign-ins.
const FOR_SIGN_INS: usize = 7;
const MAX_LINKS: usize = 3;
const SIGN_IN_WORDS: [&str; 7] = ["login", "log-in", "log_in", "signin", "sign-in", "sign_in", "/auth"];
/// Below the application's own path.
const WELL_KNOWN: [&str; 5] = ["login", "admin/", "accounts/login/", "user/login", "users/sign_in"];
