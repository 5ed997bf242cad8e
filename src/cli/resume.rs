//! `rejoin resume`: the command by which a session's own tool goes on with it in a terminal.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use rejoin::engine::known::{KnownAgent, title};
use rejoin::index::ObservedSession;
use rejoin::record::AgentSessionId;
use rejoin::store::StoreError;
use rejoin::sys::SessionId;

#[cfg(not(unix))]
use super::exit::FAILED;
use super::exit::Failure;
use super::global::Global;
use super::programs::{on_path, quoted};
use super::sessions::context::{CommandContext, unread};
use super::sessions::id::{find_readable, given};
use super::sessions::named::SESSION_OR_LIST;
use super::sources;
use super::store_path;
use super::term::{Output, note, printable};

/// Which session, and what to do with the command.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "ID", help = SESSION_OR_LIST)]
    pub(super) id: Option<String>,
    /// Run the command in the session's folder instead of printing it.
    #[arg(long)]
    exec: bool,
    /// Print a JSON object: the session, the agent and its id there, the folder, the command.
    #[arg(long, conflicts_with = "exec")]
    json: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

/// How a session goes on in a terminal.
pub(super) struct Resumption {
    session: SessionId,
    /// The session of the tool, as the tool knows it.
    own: AgentSessionId,
    folder: String,
    /// The tool and its arguments.
    command: Vec<String>,
}

impl Resumption {
    /// The command as a line for a shell.
    fn line(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| quoted(word)).collect();
        format!("cd {} && {}", quoted(&self.folder), words.join(" "))
    }
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let context = CommandContext::of_sources(global, &args.sources)?;
    let id = find_readable(&context, given(args.id.as_ref())?)?;
    if args.exec {
        return start(global, &runnable(&context, id)?);
    }
    let found = resumption(&context, id)?;
    if args.json {
        output.json(&json!({
            "sessionId": found.session.as_str(),
            "agentSession": found.own.as_json(),
            "cwd": found.folder,
            "command": found.command,
        }))?;
    } else {
        output.line(printable(&found.line()))?;
    }
    let open = open_elsewhere(&context, &found.session);
    for why in [open, obstacle(&context, &found)?].into_iter().flatten() {
        note(global, why.message(), why.next());
    }
    Ok(())
}

/// How this session goes on, if that can be done here and now.
pub(super) fn runnable(context: &CommandContext<'_>, id: SessionId) -> Result<Resumption, Failure> {
    let found = resumption(context, id)?;
    if let Some(why) = open_elsewhere(context, &found.session) {
        return Err(why);
    }
    match obstacle(context, &found)? {
        Some(why) => Err(why),
        None => Ok(found),
    }
}

/// How this session goes on.
fn resumption(context: &CommandContext<'_>, session: SessionId) -> Result<Resumption, Failure> {
    let (own, folder) = own_session(context, &session)?;
    let Some(own) = own else {
        return Err(Failure::new(format!(
            "{session} is not known to any agent by an id of its own"
        ))
        .hint("open it in your editor: `rejoin wrap -- AGENT` gives the agent what was said"));
    };
    let agent = KnownAgent::called(&own.agent);
    let command = agent.and_then(|agent| agent.resume(&own.id));
    let command = command.ok_or_else(|| {
        let (name, id) = (title(&own.agent), &own.id);
        Failure::new(format!(
            "rejoin knows no command by which {name} goes on with a session in a terminal; there, \
             its id is {id:?}"
        ))
        .hint("open it in your editor, with `rejoin wrap -- AGENT` as its agent")
    })?;
    Ok(Resumption {
        session,
        own,
        folder,
        command,
    })
}

/// The session of the agent that has it now, and the working directory.
fn own_session(
    context: &CommandContext<'_>,
    id: &SessionId,
) -> Result<(Option<AgentSessionId>, String), Failure> {
    if let Ok(mut reader) = context.store.read(id) {
        let scan = reader.scan()?;
        return Ok((scan.agent_session, scan.workspace.cwd));
    }
    // The list knows enough of a conversation that another tool keeps, which may be long.
    let tools = context.tools()?;
    let listed = tools.map(|tools| tools.catalog.look(std::slice::from_ref(id), None));
    let mut listed = listed.transpose().map_err(|error| unread(&error))?;
    match listed.as_mut().and_then(|listed| listed.remove(id)) {
        Some(ObservedSession::Listed(listed)) => {
            let summary = listed.summary;
            Ok((summary.agent_sessions().pop(), summary.cwd))
        }
        _ => Err(StoreError::NotFound { id: id.clone() }.into()),
    }
}

/// Why two would write to the session, if another process has it open.
fn open_elsewhere(context: &CommandContext<'_>, id: &SessionId) -> Option<Failure> {
    let (id, holder) = (id.clone(), context.store.holder(id));
    let is_open = context.store.is_open(&id);
    is_open.then(|| StoreError::InUse { id, holder }.into())
}

/// Why the command cannot run here.
fn obstacle(context: &CommandContext<'_>, found: &Resumption) -> Result<Option<Failure>, Failure> {
    let (folder, name) = (&found.folder, title(&found.own.agent));
    if is_lost(context, found)? {
        let why = Failure::new(format!("{name} no longer has this conversation here"));
        return Ok(Some(why.hint(
            "what is kept of it goes on in your editor, with `rejoin wrap -- AGENT` as its agent",
        )));
    }
    if !Path::new(folder).is_dir() {
        let why = Failure::new(format!("there is no folder {folder}"));
        let how = "the tool looks for its sessions by their folder: make it again";
        return Ok(Some(why.hint(how)));
    }
    let program = found.command.first();
    let missing = program.filter(|program| on_path(program).is_none());
    Ok(missing.map(|program| {
        let why = Failure::new(format!("{program} is not in a folder of PATH"));
        why.hint(format!("install {name}, or run the command where it is"))
    }))
}

/// Whether the session is a copy of a conversation that its tool has deleted.
fn is_lost(context: &CommandContext<'_>, found: &Resumption) -> Result<bool, Failure> {
    let log = match context.store.read(&found.session) {
        Err(StoreError::NotFound { .. }) => return Ok(false),
        log => log?,
    };
    if log.header().known_as.as_ref() != Some(&found.own.id) {
        return Ok(false);
    }
    let tools = context.tools()?;
    let tools = tools.filter(|tools| tools.live.shows(&found.own.agent));
    Ok(tools.is_some_and(|tools| tools.file_of(&found.session).is_none()))
}

/// Runs the command in the place of this process where the system can do so.
pub(super) fn start(global: &Global, found: &Resumption) -> Result<(), Failure> {
    let Some((name, arguments)) = found.command.split_first() else {
        return Ok(());
    };
    let program = on_path(name).unwrap_or_else(|| name.into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&found.folder);
    command.env("PWD", &found.folder);
    for withheld in store_path::launch(global)?.withheld {
        command.env_remove(withheld);
    }
    let cannot = |error| Failure::new(format!("cannot start {name}: {error}"));
    #[cfg(unix)]
    return Err(cannot(std::os::unix::process::CommandExt::exec(
        &mut command,
    )));
    #[cfg(not(unix))]
    {
        let status = command.status().map_err(cannot)?;
        match status.code() {
            Some(0) => Ok(()),
            code => {
                let code = code.and_then(|code| u8::try_from(code).ok());
                Err(Failure::with_code(code.unwrap_or(FAILED), ""))
            }
        }
    }
}
