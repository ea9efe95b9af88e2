//! The questions of `tollgate init` on a terminal without options: each has a default, and takes what the option takes.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, bail};

use super::{BEHIND, InitArgs, UPSTREAM, listen, pattern, preset, upstream};

/// The same arguments with the answers, where a person can be asked and has chosen nothing yet.
pub(super) fn ask(arguments: InitArgs) -> io::Result<InitArgs> {
    match may_ask(&arguments) && arguments.has_no_options() {
        true => Questions { input: io::stdin().lock(), output: io::stderr() }.ask(arguments),
        false => Ok(arguments),
    }
}

/// Whether a person is there who wants to be asked.
pub(super) fn may_ask(arguments: &InitArgs) -> bool {
    !arguments.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks whether to do something that Enter does not agree to.
pub(super) fn agrees(question: &str) -> io::Result<bool> {
    let mut questions = Questions { input: io::stdin().lock(), output: io::stderr() };
    questions.value(&format!("{question} yes or no"), "no", yes_or_no)
}

struct Questions<I, O> {
    input: I,
    output: O,
}

impl<I: BufRead, O: Write> Questions<I, O> {
    fn ask(mut self, defaults: InitArgs) -> io::Result<InitArgs> {
        writeln!(self.output, "Enter takes the value in brackets.\n")?;
        let application = "Which application? A preset of `tollgate presets`, or none";
        let preset = self.value(application, "none", |text| none_or(text, preset))?;
        let patterns = match &preset {
            Some(_) => defaults.patterns,
            None => vec![self.value("Which request is a sign-in?", &defaults.patterns[0], pattern)?],
        };
        let upstream = self.value("Where does the application listen?", UPSTREAM, upstream)?;
        let listen = self.value("Where do clients connect?", &defaults.listen[0], listen)?;
        let front = "Which proxy is in front of the gate? none, nginx, caddy, traefik or cloudflare";
        let behind = self.value(front, "none", |text| none_or(text, proxy))?;
        let observe = self.value("Only observe at first, and refuse nothing? yes or no", "yes", yes_or_no)?;
        let known = "Keep a budget for browsers that have signed in before (cookies)? yes or no";
        let knows_owners = self.value(known, "yes", yes_or_no)?;
        let operators = "Let operators ask the gate, also by a dashboard on port 9180? yes or no";
        let admin = self.value(operators, "yes", yes_or_no)?;
        let (upstream, listen) = (vec![upstream], vec![listen]);
        Ok(InitArgs { preset, patterns, upstream, listen, behind, observe, knows_owners, admin, ..defaults })
    }

    /// Asks until the answer is one.
    fn value<T>(
        &mut self,
        question: &str,
        default: &str,
        parse: impl Fn(&str) -> anyhow::Result<T>,
    ) -> io::Result<T> {
        loop {
            write!(self.output, "{question} [{default}] ")?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no answer, so nothing is written"));
            }
            let answer = Some(line.trim()).filter(|line| !line.is_empty()).unwrap_or(default);
            match parse(answer) {
                Ok(value) => return Ok(value),
                Err(why) => writeln!(self.output, "  {why}")?,
            }
        }
    }
}

fn none_or(text: &str, parse: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<Option<String>> {
    if text == "none" { Ok(None) } else { parse(text).map(Some) }
}

fn proxy(text: &str) -> anyhow::Result<String> {
    let known = BEHIND.iter().find(|(name, _)| *name == text);
    known.map(|(name, _)| (*name).to_owned()).with_context(|| format!("no words for `{text}` are known"))
}

fn yes_or_no(text: &str) -> anyhow::Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => bail!("yes or no"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: InitArgs,
    }

    /// What is asked of a user who types this.
    fn asked(typed: &str) -> (io::Result<InitArgs>, String) {
        let mut output = Vec::new();
        let defaults = Line::parse_from(["init"]).arguments;
        let answers = Questions { input: typed.as_bytes(), output: &mut output }.ask(defaults);
        (answers, String::from_utf8(output).unwrap())
    }

    #[test]
    fn enter_takes_the_defaults_and_a_preset_needs_no_pattern() {
        let (answers, said) = asked(&"\n".repeat(8));
        let answers = answers.unwrap();
        assert_eq!((answers.preset, answers.patterns), (None, vec!["POST /login".to_owned()]));
        assert_eq!(
            (answers.observe, answers.knows_owners, answers.admin, answers.behind),
            (true, true, true, None)
        );
        assert!(said.contains("[http://127.0.0.1:8081]") && said.contains("[http://[::]:8080]"), "{said}");
        let (answers, said) = asked("wordpress\n\n\nnginx\nno\nn\nn\n");
        let answers = answers.unwrap();
        assert_eq!(
            (answers.preset.as_deref(), answers.behind.as_deref()),
            (Some("wordpress"), Some("nginx"))
        );
        assert!(
            !answers.observe && !answers.knows_owners && !answers.admin && !said.contains("sign-in?"),
            "{said}"
        );
    }

    #[test]
    fn a_wrong_answer_is_asked_for_again_and_an_end_of_the_answers_is_an_error() {
        let (answers, said) = asked("wordpres\nnone\nlogin\nPOST /in\nsomewhere\n\n\nsquid\n\nmaybe\n\n\n\n");
        let answers = answers.unwrap();
        assert_eq!(answers.patterns, ["POST /in"]);
        for words in ["did you mean `wordpress`", "no words for `squid`", "  yes or no"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(said.matches("Where does the application listen?").count(), 2);
        assert_eq!(asked("\n\n").0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
