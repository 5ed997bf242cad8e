//! The command line: one file for each subcommand.

mod agents;
mod completions;
mod demo;
mod doctor;
mod exit;
mod export;
mod global;
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
mod serve;
mod sessions;
mod setup;
mod socket;
mod sources;
mod stats;
mod store_command;
mod store_path;
mod term;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use exit::Failure;
use global::Global;
use term::{Output, printable, report, stdin_is_terminal};

/// An ACP agent whose sessions survive crashes and restarts.
///
/// An editor starts `rejoin` and speaks the Agent Client Protocol with it over stdin and stdout.
/// Each session is recorded in a log, which is replayed when the session is loaded again.
#[derive(Debug, Parser)]
#[command(name = "rejoin", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli<C: Subcommand = AnyCommand> {
    #[command(
        flatten,
        next_help_heading = "Serve options (serve is the default command)"
    )]
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

/// The command line, for what is made from its definition.
static DEFINITION: LazyLock<clap::Command> = LazyLock::new(Cli::<AnyCommand>::command);

#[derive(Debug, Subcommand)]
enum AnyCommand {
    #[command(flatten)]
    Serving(Serving),
    /// Show what rejoin does: prompt it, kill it during its answer, load the session again.
    #[command(after_help = "Example:\n  rejoin demo --keep demo")]
    Demo(demo::Args),
    /// List, search, show, rename, delete, restore and verify sessions; alone in a terminal, choose one
    /// from a list.
    Sessions(sessions::Args),
    /// Write a conversation as Markdown, as a page for a browser, or as JSON.
    #[command(after_help = "Example:\n  rejoin export last --output last.html")]
    Export(export::Args),
    /// Read a conversation in the browser.
    #[command(after_help = "Example:\n  rejoin open last")]
    Open(open::Args),
    /// Print, or run, the command by which a session's own tool goes on with it in a terminal.
    #[command(after_help = "Example:\n  rejoin resume last --exec")]
    Resume(resume::Args),
    /// List which permissions agents asked for, what was answered, when, and in which client.
    #[command(after_help = "Example:\n  rejoin permissions --since 7d")]
    Permissions(permissions::Args),
    /// List the sessions that are open in some process, and what they are doing.
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
    /// Show an open session live in a terminal; connect an ACP client to it otherwise.
    #[command(after_help = "Example:\n  rejoin attach last --answer")]
    Attach(live::attach::Args),
    /// End the turn of a session and close it, wherever it is open.
    #[command(after_help = "Example:\n  rejoin stop last")]
    Stop(live::stop::Args),
    /// Show how many sessions, turns and tokens there were, and what they cost.
    #[command(after_help = "Example:\n  rejoin stats --days 30")]
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
    /// Serve recorded conversations to models: an MCP server on stdin and stdout.
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
    let (parsed, arguments) = parse(arguments);
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => match picker(&error, &arguments) {
            Some(cli) => cli,
            None => return refuse(error, &arguments),
        },
    };
    // Only options can precede the command.
    let has_options_first = arguments
        .get(1)
        .is_some_and(|first| first.as_encoded_bytes().starts_with(b"-"));
    let misplaced = has_options_first && cli.command.is_some() && cli.serve.are_given();
    let serves = cli.serves();
    let result = logging::start(&cli.global, serves).and_then(|()| match cli.command {
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
        Some(AnyCommand::Sessions(args)) => {
            printed(|output| sessions::run(&cli.global, &args, output))
        }
        Some(AnyCommand::Export(args)) => printed(|output| export::run(&cli.global, &args, output)),
        Some(AnyCommand::Open(args)) => printed(|output| open::run(&cli.global, &args, output)),
        Some(AnyCommand::Resume(args)) => printed(|output| resume::run(&cli.global, &args, output)),
        Some(AnyCommand::Permissions(args)) => {
            printed(|output| permissions::run(&cli.global, &args, output))
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
        Some(AnyCommand::Completions(args)) => {
            printed(|output| completions::run(&args, &DEFINITION, output))
        }
        Some(AnyCommand::Man(args)) => {
            printed(|output| man::run(&args, DEFINITION.clone(), output))
        }
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

/// Runs a command that prints. Commands that serve leave stdout alone.
fn printed(run: impl FnOnce(&mut Output) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut output = Output::standard();
    run(&mut output)?;
    output.finish()
}

/// Parses the command line, and returns it as it was understood: commands of `rejoin sessions` may be
/// given without that word.
fn parse(arguments: Vec<OsString>) -> (Result<Cli, clap::Error>, Vec<OsString>) {
    // Clients wait for what they start: the commands that they do not need are not defined for it.
    if let Ok(cli) = Cli::<Serving>::try_parse_from(&arguments) {
        return (Ok(cli.into()), arguments);
    }
    match Cli::try_parse_from(&arguments) {
        Err(error) => match with_sessions(&error, &arguments) {
            Some(longer) => (Cli::try_parse_from(&longer), longer),
            None => (Err(error), arguments),
        },
        parsed => (parsed, arguments),
    }
}

/// The command line with `sessions` before the word that is no command, if it is one of
/// `rejoin sessions`.
fn with_sessions(error: &clap::Error, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let word = unknown_command(error)?;
    let sessions = DEFINITION.find_subcommand("sessions")?;
    sessions.find_subcommand(word)?;
    below_sessions(word, arguments)
}

/// The command line with `sessions` before this word, if that is in the place of a command.
fn below_sessions(word: &str, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let at = arguments.iter().position(|argument| argument == word)?;
    let (before, behind) = arguments.split_at(at);
    let is_command = |argument: &OsString| DEFINITION.find_subcommand(argument).is_some();
    let is_first = !before[1..].iter().any(is_command);
    is_first.then(|| [before, &["sessions".into()], behind].concat())
}

/// The word that is no command.
fn unknown_command(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => {
            Some(word)
        }
        _ => None,
    }
}

/// `rejoin sessions` alone, in a terminal, chooses a session from a list.
fn picker(error: &clap::Error, arguments: &[OsString]) -> Option<Cli> {
    let lacks_command = matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    );
    if !lacks_command || !stdin_is_terminal() || !Output::standard().is_terminal() {
        return None;
    }
    let cli = Cli::try_parse_from(arguments.iter().cloned().chain(["pick".into()])).ok();
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
        .map(|argument| printable(&argument.to_string_lossy()));
    let mut error = Cli::<AnyCommand>::try_parse_from(shown)
        .err()
        .unwrap_or(error);
    suggest_commands_of_sessions(&mut error, arguments);
    explain_resume(&mut error);
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

/// Commands of `rejoin sessions` are suggested, too, since they may be given without that word.
fn suggest_commands_of_sessions(error: &mut clap::Error, arguments: &[OsString]) {
    let longer = unknown_command(error).and_then(|word| below_sessions(word, arguments));
    let Some(longer) = longer else {
        return;
    };
    let below = Cli::<AnyCommand>::try_parse_from(longer).err();
    let mut similar = Vec::new();
    for error in [below.as_ref(), Some(&*error)] {
        let suggested = error.and_then(|error| error.get(ContextKind::SuggestedSubcommand));
        match suggested {
            Some(ContextValue::String(one)) => similar.push(one.clone()),
            Some(ContextValue::Strings(several)) => similar.extend_from_slice(several),
            _ => {}
        }
    }
    if !similar.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(similar),
        );
    }
}

/// A session is resumed in the client. Commands that resemble the word do something else.
fn explain_resume(error: &mut clap::Error) {
    if !unknown_command(error).is_some_and(|word| ["continue", "load"].contains(&word)) {
        return;
    }
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = [
        "in your editor, sessions are resumed with `rejoin wrap -- AGENT` as its agent",
        "in a terminal, `rejoin resume last` says how their own tool goes on with them",
    ];
    let tips = tips.map(Into::into).into();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
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
    let tip = if let Some(meant) = agents::meant(&command) {
        format!("{}: {meant}", agents::no_agent(&format!("`{word}`")))
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
