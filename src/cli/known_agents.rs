//! The commands of known agents, for settings and checks.

use crate::engine::choice::known::{Known, known};

use super::programs::on_path;

/// The known agents that are installed, with their commands.
pub(super) fn installed() -> impl Iterator<Item = (&'static Known, Vec<String>)> {
    known()
        .iter()
        .filter_map(|known| Some((known, command_of(known)?)))
}

/// The command of an agent, if it is installed.
pub(super) fn command_of(known: &Known) -> Option<Vec<String>> {
    let path = on_path(known.command.as_ref()?)?;
    Some(command(known, [path.to_str()?]))
}

/// The command of an agent with `npx`, which installs it.
pub(super) fn with_npx(known: &Known) -> Option<Vec<String>> {
    let npx = on_path("npx")?;
    Some(command(known, [npx.to_str()?, "-y", known.npx.as_ref()?]))
}

fn command<const N: usize>(known: &Known, program: [&str; N]) -> Vec<String> {
    let words = program.into_iter().map(str::to_owned);
    words.chain(known.args.iter().cloned()).collect()
}
