//! `rejoin doctor`: what works here, what does not, and what to do about it.

mod agents;
mod editors;
mod finding;
mod store;
mod tools;

use super::exit::Failure;
use super::global::Global;
use super::programs::Rejoin;
use super::term::{
    ACTIVE, FAINT, Look, Output, STRONG, WAITING, WRONG, busy, pad, printable, width, wrapped,
};
use finding::{Finding, Status};

/// The column with the names of checks.
const NAMES: usize = 16;
/// The widest line.
const WIDEST: usize = 100;

/// What to check.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rejoin doctor --agents")]
pub(super) struct Args {
    /// Start every installed agent to see whether it speaks ACP. By default those that a session or
    /// an editor's settings use.
    #[arg(long)]
    agents: bool,
    /// Start no agent.
    #[arg(long, conflicts_with = "agents")]
    no_agents: bool,
    /// Print a JSON array with an object for each finding.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let look = output.look().clone();
    let mut findings = vec![program(&look)];
    let doing = || "Looking at the store …".to_owned();
    let (found, mut used) = busy(doing, || store::check(global, &look));
    findings.extend(found);
    findings.extend(tools::check(global));
    if !args.agents && !args.no_agents {
        used.extend(editors::agents());
    }
    let launch = super::store_path::launch(global).unwrap_or_default();
    findings.extend(agents::check(&look, &launch, |known| {
        args.agents || !args.no_agents && used.iter().any(|name| known.is_called(name))
    })?);
    findings.extend(editors::check(&look));
    let count = |status| {
        findings
            .iter()
            .filter(|found| found.status == status)
            .count()
    };
    let (errors, warnings) = (count(Status::Error), count(Status::Warning));
    if args.json {
        output.json(&findings.iter().map(Finding::as_json).collect())?;
    } else {
        for finding in &findings {
            for line in lines(finding, global, &look) {
                output.line(line)?;
            }
        }
        let all = findings.len();
        output.line(format!("\n{}", summary(all, errors, warnings)))?;
    }
    match errors {
        0 => Ok(()),
        _ => Err(Failure::reported()),
    }
}

fn summary(all: usize, errors: usize, warnings: usize) -> String {
    use crate::cli::term::count;
    match (errors, warnings) {
        (0, 0) => format!("{}, all in order.", count(all, "check")),
        (0, _) => format!("{}, {}.", count(all, "check"), count(warnings, "warning")),
        _ => {
            let (errors, warnings) = (count(errors, "error"), count(warnings, "warning"));
            format!("{}, {errors}, {warnings}.", count(all, "check"))
        }
    }
}

/// This program.
fn program(look: &Look) -> Finding {
    let version = env!("CARGO_PKG_VERSION");
    match Rejoin::this() {
        Err(_) => Finding::ok("rejoin", version),
        Ok(Rejoin { path, passing }) => {
            let message = format!("{version}, {}", look.folder(&path));
            match passing {
                None => Finding::ok("rejoin", message),
                Some(why) => Finding::warning(
                    "rejoin",
                    message,
                    format!("do not set editors up with this path: {why}"),
                ),
            }
        }
    }
}

/// A finding as people read it: its sign, its name, what was found, and below what to do.
fn lines(finding: &Finding, global: &Global, look: &Look) -> Vec<String> {
    let (sign, style) = match finding.status {
        Status::Ok => ("✓", ACTIVE),
        Status::Warning => ("!", WAITING),
        Status::Error => ("✗", WRONG),
    };
    let room = look.width.min(WIDEST).saturating_sub(2 + NAMES);
    let message = wrapped(&printable(&finding.message), room);
    let hint = finding.hint.as_deref().map(|hint| global.with_store(hint));
    let hint = hint.map(|hint| wrapped(&printable(&hint), room.saturating_sub(2)));
    let mut name = printable(&finding.check);
    let mut out = Vec::new();
    if width(&name) >= NAMES {
        // What was found begins on a line of its own.
        out.push(format!(
            "{} {}",
            look.paint(style, sign),
            look.paint(STRONG, &name)
        ));
        name.clear();
    }
    for (number, line) in message.into_iter().enumerate() {
        let sign = if number == 0 && !name.is_empty() {
            sign
        } else {
            " "
        };
        let name = if number == 0 { &name } else { "" };
        let name = look.paint(STRONG, name) + &" ".repeat(NAMES - width(name));
        out.push(format!("{} {name}{line}", look.paint(style, sign)));
    }
    for (number, line) in hint.into_iter().flatten().enumerate() {
        let arrow = if number == 0 { "→ " } else { "  " };
        out.push(look.paint(FAINT, &format!("{}{arrow}{line}", pad("", 2 + NAMES))));
    }
    out
}
