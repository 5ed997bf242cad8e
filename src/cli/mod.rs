//! The command line: one file for each subcommand.

mod agent_command;
mod choose;
mod completions;
mod demo;
mod doctor;
mod exit;
mod export;
mod global;
mod help;
mod helper;
mod import;
mod log_lines;
mod live;
mod logging;
mod man;
mod open;
mod page_file;
mod permissions;
mod pipe;
mod programs;
mod resume;
mod secrets;
mod serve;
mod sessions;
mod setup;
mod socket;
mod sources;
mod stats;
mod store_changes;
mod store_command;
mod store_path;
mod term;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::Failure;
use global::Global;
use sessions::SessionsCommand;
use term::{Output, printable, report, stdin_is_terminal};

/// Keep, find and resume your conversations with coding agents.
#[derive(Debug, Parser)]
#[command(name = "rejoin", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli<C: Subcommand = AnyCommand> {
    #[command(flatten, next_help_heading = help::SERVE)]
    serve: serve::Args,
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<C>,
}

impl Cli {
    /// Whether the command serves a client.
    fn serves(&self) -> bool {
        matches!(
            self.command,
            None | Some(AnyCommand::Serving(_) | AnyCommand::Mcp(_) | AnyCommand::Attach(_))
        )
    }
}

impl From<Cli<Serving>> for Cli {
    fn from(cli: Cli<Serving>) -> Self {
        Self {
            serve: cli.serve,
            global: cli.global,
            command: cli.command.map(AnyCommand::Serving),
        }
    }
}

#[derive(Debug, Subcommand)]
enum AnyCommand {
    #[command(flatten)]
    Session(SessionsCommand),
    #[command(flatten)]
    Serving(Serving),
    /// Show what rejoin does: prompt it, kill it during its answer, load the session again.
    #[command(after_help = "Example:\n  rejoin demo --keep demo")]
    Demo(demo::Args),
    /// The commands for sessions by longer names: `rejoin sessions list` is `rejoin list`; alone in a
    /// terminal, choose a session from a list.
    #[command(hide = true)]
    Sessions(sessions::Args),
    /// Write a conversation as Markdown, as a page for a browser, or as JSON.
    #[command(after_help = "Example:\n  rejoin export last --output last.html")]
    Export(export::Args),
    /// Read a conversation in the browser.
    #[command(after_help = "Example:\n  rejoin open last")]
    Open(open::Args),
    /// Print or run the command with which a session's own tool goes on with it.
    #[command(after_help = "Example:\n  rejoin resume last --exec")]
    Resume(resume::Args),
    /// List what agents asked permission for, and who has answered what and when.
    #[command(after_help = "Example:\n  rejoin permissions --since 7d")]
    Permissions(permissions::Args),
    /// List the conversations that have keys or tokens, and of which kinds, without showing them.
    #[command(after_help = "Example:\n  rejoin secrets --sources codex")]
    Secrets(secrets::Args),
    /// List the sessions that are open, and what they are doing.
    #[command(after_help = "Example:\n  rejoin ps")]
    Ps(live::ps::Args),
    /// Wait until a turn ends or waits for an answer.
    ///
    /// Without an ID, any session of the store counts, if a process has it open.
    #[command(
        after_help = "Exit codes: 0 it ended well, or nothing runs, 10 it waits for an answer, 11 it was \
cancelled, failed or was interrupted, 12 the time is over, 3 there is no such session.\n\nExample:\n  rejoin wait last --timeout 10m"
    )]
    Wait(live::wait::Args),
    /// Show an open session live, or connect an ACP client to it.
    #[command(after_help = "Example:\n  rejoin attach last --answer")]
    Attach(live::attach::Args),
    /// End the turn of a session and close it, wherever it is open.
    #[command(after_help = "Example:\n  rejoin stop last")]
    Stop(live::stop::Args),
    /// Count sessions, turns and tokens, and what they cost.
    #[command(after_help = "Example:\n  rejoin stats --since 30d")]
    Stats(stats::Args),
    /// Copy conversations of other tools, such as Claude Code and Codex, into the store.
    #[command(after_help = "Example:\n  rejoin import codex")]
    Import(import::Args),
    /// Make a store in a database, check a store, copy sessions between stores.
    Store(store_command::Args),
    /// Put rejoin in front of the agents in your editor's settings.
    Setup(setup::Args),
    /// Check the store, the installed agents and the settings of editors.
    Doctor(doctor::Args),
    /// Serve recorded conversations to models: an MCP server.
    #[command(after_help = "Example:\n  rejoin mcp --cwd ~/project")]
    Mcp(serve::mcp::Args),
    /// Print a script that completes rejoin's command line in a shell.
    Completions(completions::Args),
    /// Show the manual page, or write a page for each command.
    Man(man::Args),
}

/// The commands that programs start.
#[derive(Debug, Subcommand)]
enum Serving {
    /// Serve an ACP client on stdin and stdout (the default if stdin is not a terminal).
    #[command(after_help = "Example:\n  rejoin serve --store ~/acp")]
    Serve(serve::Args),
    /// Wrap another ACP agent and record its sessions.
    #[command(
        after_help = "Example:\n  rejoin wrap -- npx -y @agentclientprotocol/claude-agent-acp"
    )]
    Wrap(serve::wrap::Args),
    /// Choose among the agents of this machine in each session, and record the sessions.
    Agent(serve::agent::Args),
    /// Record the sessions of the next agent in a chain of ACP proxies.
    #[command(after_help = "Example:\n  rejoin proxy --name codex-acp")]
    Proxy(serve::proxy::Args),
    /// End a process group that rejoin started when rejoin is killed.
    #[command(hide = true)]
    Guard(serve::guard::Args),
}

/// Runs the command line and returns the exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if completions::are_wanted() {
        return ExitCode::from(completions::complete(arguments));
    }
    let mut cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => match picker(&error, &arguments) {
            Some(cli) => cli,
            None => return refuse(error, &arguments),
        },
    };
    // Nobody is served in a terminal.
    if cli.command.is_none() && is_in_terminal() && !cli.serve.are_given() {
        cli.command = Some(AnyCommand::Session(SessionsCommand::Pick));
    }
    // Only options can precede the command.
    let has_options_first = arguments
        .get(1)
        .is_some_and(|first| first.as_encoded_bytes().starts_with(b"-"));
    let misplaced = has_options_first && cli.command.is_some() && cli.serve.are_given();
    let serves = cli.serves();
    let result = logging::start(&cli.global, serves);
    let result = result.and_then(|()| match &mut cli.command {
        Some(command) => choose::session_of(&cli.global, command, is_in_terminal()),
        None => Ok(()),
    });
    let result = result.and_then(|()| match cli.command {
        Some(command) if misplaced => Err(misplaced_option(&command)),
        Some(AnyCommand::Serving(command)) => match command {
            Serving::Serve(args) => serve::run(&cli.global, &args),
            Serving::Wrap(args) => serve::wrap::run(&cli.global, &args),
            Serving::Agent(args) => serve::agent::run(&cli.global, &args),
            Serving::Proxy(args) => serve::proxy::run(&cli.global, &args),
            Serving::Guard(args) => serve::guard::run(&args),
        },
        Some(AnyCommand::Demo(_)) if cli.global.names_store() => Err(Failure::usage(
            "`rejoin demo` uses a store of its own, not that of --store",
        )
        .hint("use `--keep DIR` to choose its folder")),
        Some(AnyCommand::Demo(args)) => printed(|output| demo::run(&args, output)),
        Some(AnyCommand::Session(command) | AnyCommand::Sessions(sessions::Args { command })) => {
            printed(|output| sessions::run(&cli.global, &command, output))
        }
        Some(AnyCommand::Export(args)) => printed(|output| export::run(&cli.global, &args, output)),
        Some(AnyCommand::Open(args)) => printed(|output| open::run(&cli.global, &args, output)),
        Some(AnyCommand::Resume(args)) => printed(|output| resume::run(&cli.global, &args, output)),
        Some(AnyCommand::Permissions(args)) => {
            printed(|output| permissions::run(&cli.global, &args, output))
        }
        Some(AnyCommand::Secrets(args)) => {
            printed(|output| secrets::run(&cli.global, &args, output))
        }
        Some(AnyCommand::Ps(args)) => printed(|output| live::ps::run(&cli.global, &args, output)),
        Some(AnyCommand::Wait(args)) => {
            printed(|output| live::wait::run(&cli.global, &args, output))
        }
        Some(AnyCommand::Attach(args)) => live::attach::run(&cli.global, &args),
        Some(AnyCommand::Stop(args)) => {
            printed(|output| live::stop::run(&cli.global, &args, output))
        }
        Some(AnyCommand::Stats(args)) => printed(|output| stats::run(&cli.global, &args, output)),
        Some(AnyCommand::Store(args)) => {
            printed(|output| store_command::run(&cli.global, &args, output))
        }
        Some(AnyCommand::Setup(args)) => printed(|output| setup::run(&cli.global, &args, output)),
        Some(AnyCommand::Doctor(args)) => printed(|output| doctor::run(&cli.global, &args, output)),
        Some(AnyCommand::Mcp(args)) => serve::mcp::run(&cli.global, &args),
        Some(AnyCommand::Completions(args)) => printed(|output| completions::run(&args, output)),
        Some(AnyCommand::Man(args)) => printed(|output| man::run(&args, definition(), output)),
        Some(AnyCommand::Import(args)) => printed(|output| import::run(&cli.global, &args, output)),
        None if !stdin_is_terminal() => serve::run(&cli.global, &cli.serve),
        None => Err(Failure::usage(
            "nothing to do: stdin is a terminal, so there is no client to serve",
        )
        .hint("run `rejoin demo` to see what it does, or `rejoin --help`")),
    });
    let code = match result {
        Ok(()) => exit::OK,
        Err(failure) => {
            report(&cli.global, &failure);
            failure.code()
        }
    };
    logging::finish();
    ExitCode::from(code)
}

/// Whether a person uses the command.
fn is_in_terminal() -> bool {
    stdin_is_terminal() && Output::standard().is_terminal()
}

/// Runs a command that prints. Commands that serve leave stdout alone.
fn printed(run: impl FnOnce(&mut Output) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut output = Output::standard();
    run(&mut output)?;
    output.finish()
}

/// The definition of the whole command line.
fn definition() -> clap::Command {
    help::arranged(Cli::<AnyCommand>::command())
}

/// Parses the command line.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    // Clients wait for what they start: the commands that they do not need are not defined for it.
    if let Ok(cli) = Cli::<Serving>::try_parse_from(arguments) {
        return Ok(cli.into());
    }
    let mut command = definition();
    let parsed = command
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| error.format(&mut command))
}

/// `rejoin sessions` alone, in a terminal, chooses a session from a list.
fn picker(error: &clap::Error, arguments: &[OsString]) -> Option<Cli> {
    let lacks_command = matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    );
    if !lacks_command || !is_in_terminal() {
        return None;
    }
    let arguments: Vec<_> = arguments.iter().cloned().chain(["pick".into()]).collect();
    let cli = parse(&arguments).ok();
    cli.filter(|cli| matches!(cli.command, Some(AnyCommand::Sessions(_))))
}

/// An option of `serve` before the name of another command.
fn misplaced_option(command: &AnyCommand) -> Failure {
    let failure = Failure::usage("`serve` options cannot be used before another command");
    match command {
        AnyCommand::Serving(_) => failure.hint("put them after the name of the command"),
        _ => failure.hint("leave them out: this command does not serve"),
    }
}

/// Prints help, or what is wrong with the command line, which may contain anything.
fn refuse(error: clap::Error, arguments: &[OsString]) -> ExitCode {
    // Parse again without characters that a terminal would interpret, so that the message has none.
    // If this succeeds, only such a character was wrong; the message does not repeat it.
    let shown = arguments
        .iter()
        .map(|argument| printable(&argument.to_string_lossy()).into());
    let mut error = parse(&shown.collect::<Vec<_>>()).err().unwrap_or(error);
    help::suggest(&mut error);
    explain_wrap(&mut error, arguments);
    // Help goes to stdout and is not a failure; a wrong command line goes to stderr.
    let code = if error.use_stderr() {
        exit::USAGE
    } else {
        exit::OK
    };
    error.print().ok();
    ExitCode::from(code)
}

/// The command of the agent begins after `--`.
fn explain_wrap(error: &mut clap::Error, arguments: &[OsString]) {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => word,
        _ => return,
    };
    if word.starts_with('-') || !arguments.iter().any(|argument| argument == "wrap") {
        return;
    }
    let behind = arguments
        .iter()
        .skip_while(|argument| *argument != "wrap")
        .skip_while(|argument| *argument != word.as_str());
    let command: Vec<_> = behind.cloned().collect();
    let tip = if let Some(meant) = agent_command::meant(&command) {
        format!("{}: {meant}", agent_command::no_agent(&format!("`{word}`")))
    } else {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let words = printable(&words.join(" "));
        format!("write `--` before the agent's command: `rejoin wrap -- {words}`")
    };
    error.remove(ContextKind::SuggestedArg);
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![tip.into()]),
    );
}
