//! Has the user choose the session of a command that names none, from the list.

use super::AnyCommand;
use super::exit::Failure;
use super::global::Global;
use super::sessions::context::CommandContext;
use super::sessions::id::given;
use super::sessions::{self, SessionsCommand, picker};
use super::sources;

/// Fills in the session of a command that needs one and names none: in a terminal, where the user can be
/// asked.
pub(super) fn session_of(
    global: &Global,
    command: &mut AnyCommand,
    is_in_terminal: bool,
) -> Result<(), Failure> {
    let Some((id, verb, sources)) = unnamed(command) else {
        return Ok(());
    };
    if !is_in_terminal {
        return given(None).map(drop);
    }
    let context = match sources {
        Some(sources) => CommandContext::of_sources(global, sources)?,
        None => CommandContext::of_existing(global)?,
    };
    let chosen = picker::choose(&context, verb, sources.is_none())?;
    *id = Some(chosen.to_string());
    Ok(())
}

/// Where the name of the session belongs, what happens to it, and the tools whose conversations are offered,
/// too: without them, only sessions that a process has open.
type Unnamed<'a> = (
    &'a mut Option<String>,
    &'static str,
    Option<&'a sources::Args>,
);

fn unnamed(command: &mut AnyCommand) -> Option<Unnamed<'_>> {
    let unnamed: Unnamed<'_> = match command {
        AnyCommand::Session(SessionsCommand::Show(args))
        | AnyCommand::Sessions(sessions::Args {
            command: SessionsCommand::Show(args),
        }) => (&mut args.id, "show", Some(&args.sources)),
        AnyCommand::Open(args) => (&mut args.id, "open", Some(&args.sources)),
        AnyCommand::Export(args) => (&mut args.id, "export", Some(&args.sources)),
        AnyCommand::Resume(args) => (&mut args.id, "resume", Some(&args.sources)),
        AnyCommand::Attach(args) => (&mut args.id, "attach", None),
        AnyCommand::Stop(args) if !args.names_none() => (&mut args.id, "stop", None),
        _ => return None,
    };
    unnamed.0.is_none().then_some(unnamed)
}
