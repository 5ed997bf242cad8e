//! `rejoin wrap`: an ACP agent on stdin and stdout; another agent answers prompts.

use std::ffi::OsString;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rejoin::engine::agent::{AgentNames, Program, WrappedEngine};
use rejoin::transport::stdio;

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::term::{note, stdin_is_terminal};
use crate::cli::{agent_command, serve};

use super::options;

/// How to wrap an agent.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "wrap")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    agent: options::Args,
    /// Name under which the agent's sessions are stored. By default the name of the command, or
    /// the agent's own if the command is a runtime such as `node`.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// The agent's command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = clap::ValueHint::CommandName)]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    let given = args.command[0].to_string_lossy();
    let agent = AgentNames::program(&args.command);
    // A user who names the agent knows it.
    let checked = args.name.is_none();
    if let Some(meant) = agent_command::meant(&args.command).filter(|_| checked) {
        let failure = Failure::usage(agent_command::no_agent(&format!("`{given}`")));
        let unless = format!("if this one is, name it with `--name {agent}`");
        return Err(failure.hint(format!("{meant}; {unless}")));
    }
    let names = match &args.name {
        Some(name) => AgentNames::chosen(name.clone()),
        None => AgentNames::of_command(&args.command),
    };
    let program = Program {
        command: args.command.clone(),
        env: Vec::new(),
        launch: args.agent.launch(global)?,
        exit_timeout: args.agent.exit_timeout.or_forever(),
    };
    let engine = WrappedEngine::new(
        program,
        names,
        args.agent.policy(global, true, &args.command)?,
    );
    let engine = Arc::new(engine);
    let input = stdio::input().map_err(Failure::cannot_start)?;
    let path = args.agent.path()?;
    let Some((why, hint)) = agent_command::cannot_start(&args.command[0], path) else {
        return serve::on(global, &args.agent.serve, true, engine, input);
    };
    if stdin_is_terminal() {
        return Err(Failure::new(why).hint(hint));
    }
    // Earlier sessions can be read without it, so clients are served in any case.
    note(global, &why, Some(&hint));
    let was_asked = Arc::new(AtomicBool::new(false));
    let input = Noticed {
        input,
        any: was_asked.clone(),
    };
    serve::on(global, &args.agent.serve, true, engine, input)?;
    if was_asked.load(Ordering::Relaxed) {
        Ok(())
    } else {
        Err(Failure::reported())
    }
}

/// An input that remembers whether anything was read.
struct Noticed<R> {
    input: R,
    any: Arc<AtomicBool>,
}

impl<R: Read> Read for Noticed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.any.fetch_or(read > 0, Ordering::Relaxed);
        Ok(read)
    }
}
