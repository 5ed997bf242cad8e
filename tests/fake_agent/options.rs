//! What the agent declares, remembers and does wrong.

use std::path::PathBuf;

use clap::Parser;

/// What becomes of a prompt that comes while another one is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SecondPrompt {
    /// It is answered at the same time.
    #[default]
    AtOnce,
    /// It waits for its turn.
    Queue,
    /// It is refused.
    Refuse,
}

/// An agent for tests that does what its prompts ask for.
#[derive(Clone, Debug, Parser)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and tests combine them freely"
)]
pub(crate) struct Options {
    /// Speaks version 2 of the protocol with a client that asks for it.
    #[arg(long)]
    pub(crate) version_2: bool,
    /// Refuses a client that asks for version 2.
    #[arg(long)]
    pub(crate) refuse_version_2: bool,
    /// Answers `initialize` with the version that it was asked for, although it speaks version 1 only,
    /// and refuses `session/new` without `mcpServers`.
    #[arg(long)]
    pub(crate) echo_version: bool,
    /// In version 2, responds to a prompt when its turn has ended, and does not repeat the prompt.
    #[arg(long)]
    pub(crate) answer_late: bool,
    /// Declares `session/load`.
    #[arg(long)]
    pub(crate) load: bool,
    /// Declares `session/resume`.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Declares `session/list`.
    #[arg(long)]
    pub(crate) list: bool,
    /// Declares `session/close`.
    #[arg(long)]
    pub(crate) close: bool,
    /// Declares `session/delete`.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Declares `session/fork`.
    #[arg(long)]
    pub(crate) fork: bool,
    /// Answers `session/load` with -32601, whatever is declared.
    #[arg(long)]
    pub(crate) load_lies: bool,
    /// Answers `session/resume` with -32601, whatever is declared.
    #[arg(long)]
    pub(crate) resume_lies: bool,
    /// Loads any session as one without a history.
    #[arg(long)]
    pub(crate) load_empty: bool,
    /// Resumes any session: one that it does not know is another one, as its answer says.
    #[arg(long)]
    pub(crate) resume_other: bool,
    /// Resumes any session, and refuses prompts to those that it does not know.
    #[arg(long)]
    pub(crate) resume_blind: bool,
    /// Loads any session, shows nothing of those that it does not know, and refuses prompts to them.
    #[arg(long)]
    pub(crate) load_blind: bool,
    /// Ends a prompt that it refuses as if it had answered it.
    #[arg(long)]
    pub(crate) refuses_silently: bool,
    /// Answers each `session/new` with the same session.
    #[arg(long)]
    pub(crate) one_session: bool,
    /// Answers this with an error.
    #[arg(long, value_name = "METHOD")]
    pub(crate) fails_on: Vec<String>,
    /// Does so only for the oldest of its sessions.
    #[arg(long)]
    pub(crate) fails_for_oldest: bool,
    /// The message of that error.
    #[arg(long, default_value = "network unreachable")]
    pub(crate) failure: String,
    /// Ends when it is asked for this.
    #[arg(long, value_name = "METHOD")]
    pub(crate) dies_on: Vec<String>,
    /// Never answers this.
    #[arg(long, value_name = "METHOD")]
    pub(crate) silent_on: Vec<String>,
    /// Says things about a new session before it has answered the request that makes it, and asks
    /// for a file whose content it needs for the answer.
    #[arg(long)]
    pub(crate) early: bool,
    /// With that, starts a subagent, which asks for permission
    #[arg(long)]
    pub(crate) early_subagent: bool,
    /// Answers `session/load` before the replay.
    #[arg(long)]
    pub(crate) load_after: bool,
    /// Declares that it takes images.
    #[arg(long)]
    pub(crate) image: bool,
    /// Declares that it takes audio.
    #[arg(long)]
    pub(crate) audio: bool,
    /// Declares that it takes embedded resources.
    #[arg(long)]
    pub(crate) embedded: bool,
    /// Declares MCP over HTTP.
    #[arg(long)]
    pub(crate) http: bool,
    /// Declares this way to sign in.
    #[arg(long, value_name = "ID")]
    pub(crate) auth: Vec<String>,
    /// Answers -32000 until the user has signed in.
    #[arg(long)]
    pub(crate) needs_auth: bool,
    /// Answers every fork with an error.
    #[arg(long)]
    pub(crate) fork_fails: bool,
    /// Forks only sessions that are open.
    #[arg(long)]
    pub(crate) fork_open_only: bool,
    /// Answers a fork with the id of the session that was to be forked.
    #[arg(long)]
    pub(crate) fork_same_id: bool,
    /// Ends when it is to fork.
    #[arg(long)]
    pub(crate) fork_exits: bool,
    /// Has the modes `ask` and `code`.
    #[arg(long)]
    pub(crate) modes: bool,
    /// Has the configuration options `model` and `effort`.
    #[arg(long)]
    pub(crate) config: bool,
    /// Remembers the mode and the configuration of a session over a restart.
    #[arg(long)]
    pub(crate) keep_settings: bool,
    /// Says that a session is in the first mode whenever it opens one, and refuses a mode that the session
    /// has.
    #[arg(long)]
    pub(crate) doubtful_mode: bool,
    /// Announces its commands behind the answer that opens a session.
    #[arg(long)]
    pub(crate) announce: bool,
    /// Gives its messages ids.
    #[arg(long)]
    pub(crate) message_ids: bool,
    /// Shows the user's prompt as live updates, too.
    #[arg(long)]
    pub(crate) echo_user: bool,
    /// The same as one text, with empty lines between the blocks.
    #[arg(long)]
    pub(crate) echo_joined: bool,
    /// Shows what the user says in the middle of a turn, behind its answer to that.
    #[arg(long)]
    pub(crate) echo_steering: bool,
    /// Does so in front of the answer.
    #[arg(long)]
    pub(crate) echo_steering_first: bool,
    /// The result of a request to say something in the middle of a turn.
    #[arg(long, value_name = "JSON")]
    pub(crate) steering_result: Option<String>,
    /// Names each session after the beginning of its first prompt, and says so in each turn.
    #[arg(long)]
    pub(crate) title_of_prompt: bool,
    /// What it does with a prompt that comes while it answers another one of the same session.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) second_prompt: SecondPrompt,
    /// Gives its requests ids that are strings.
    #[arg(long)]
    pub(crate) string_ids: bool,
    /// How it calls itself.
    #[arg(long, default_value = "fake-agent")]
    pub(crate) tag: String,
    /// The result of `initialize`, in place of all that is declared.
    #[arg(long, value_name = "JSON")]
    pub(crate) initialize_result: Option<String>,
    /// Members that are added to the answer to `session/new`.
    #[arg(long, value_name = "MEMBERS")]
    pub(crate) new_members: Option<String>,
    /// Members that are added to every answer that opens a session, with its id for `$S`.
    #[arg(long, value_name = "MEMBERS")]
    pub(crate) opened_members: Option<String>,
    /// The error code for a session it does not know.
    #[arg(long, default_value_t = -32002, allow_negative_numbers = true)]
    pub(crate) unknown_code: i64,
    /// How many sessions there are from the beginning.
    #[arg(long, default_value_t = 0)]
    pub(crate) foreign: usize,
    /// How many sessions it lists at once.
    #[arg(long, default_value_t = 100)]
    pub(crate) page: usize,
    /// Keeps its sessions in this file.
    #[arg(long)]
    pub(crate) state: Option<PathBuf>,
    /// Keeps nothing, whatever `--state` says.
    #[arg(long)]
    pub(crate) forgetful: bool,
    /// Starts as after a crash before it has written its last turns, so many of each session: without a
    /// number, it has its sessions, and nothing in them.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1000000")]
    pub(crate) lost_turns: Option<usize>,
    /// Writes all that it receives to this file.
    #[arg(long)]
    pub(crate) record: Option<PathBuf>,
    /// Ends with an error before it answers anything.
    #[arg(long)]
    pub(crate) fail_start: bool,
    /// Never answers `initialize`.
    #[arg(long)]
    pub(crate) mute: bool,
    /// Waits so many milliseconds before it begins.
    #[arg(long, default_value_t = 0)]
    pub(crate) slow_start: u64,
    /// Stays when its input ends.
    #[arg(long)]
    pub(crate) ignore_eof: bool,
    /// When its input ends, stays until the process that started it is gone.
    #[arg(long)]
    pub(crate) outlives_client: bool,
    /// Stays when it is asked to end.
    #[arg(long)]
    pub(crate) ignore_term: bool,
    /// Writes so many bytes to stderr before it begins.
    #[arg(long, default_value_t = 0)]
    pub(crate) stderr_flood: usize,
    /// Starts a process that holds the pipes open and would stay long.
    #[arg(long)]
    pub(crate) spawn_grandchild: bool,
    /// When it ends before its input does, leaves a process of another group behind, which holds
    /// its pipes open until its input ends.
    #[arg(long)]
    pub(crate) leaves_process: bool,
}
