//! The names of the protocol's methods, for both directions and both versions.

/// The first request of a connection.
pub const INITIALIZE: &str = "initialize";
/// Signs in to the agent; version 1.
pub const AUTHENTICATE: &str = "authenticate";
/// Signs out of the agent; version 1.
pub const LOGOUT: &str = "logout";
/// Signs in to the agent; version 2.
pub const AUTH_LOGIN: &str = "auth/login";
/// Signs out of the agent; version 2.
pub const AUTH_LOGOUT: &str = "auth/logout";
/// Withdraws a request of either side by its id.
pub const CANCEL_REQUEST: &str = "$/cancel_request";

/// Creates a session.
pub const SESSION_NEW: &str = "session/new";
/// Opens a session and replays it.
pub const SESSION_LOAD: &str = "session/load";
/// Opens a session without a replay, or in version 2 with one from a given place on.
pub const SESSION_RESUME: &str = "session/resume";
/// Lists sessions.
pub const SESSION_LIST: &str = "session/list";
/// Lists sessions, and from then on notifies of changes; unstable.
pub const SESSION_LIST_SUBSCRIBE: &str = "session/list/subscribe";
/// Ends these notifications; unstable.
pub const SESSION_LIST_UNSUBSCRIBE: &str = "session/list/unsubscribe";
/// Names the entries of single sessions; JetBrains' session index.
pub const INDEX_BATCH_GET: &str = "_session/batch_get";
/// Gives a session a title; JetBrains' session index.
pub const INDEX_RENAME: &str = "_session/rename";
/// Hides a session from lists; JetBrains' session index.
pub const INDEX_ARCHIVE: &str = "_session/archive";
/// Shows an archived session in lists again; JetBrains' session index.
pub const INDEX_UNARCHIVE: &str = "_session/unarchive";
/// Notifies of changes in a folder's list from then on; JetBrains' session index.
pub const INDEX_SUBSCRIBE: &str = "_session/list/subscribe";
/// Ends these notifications; JetBrains' session index.
pub const INDEX_UNSUBSCRIBE: &str = "_session/list/unsubscribe";
/// Closes a session.
pub const SESSION_CLOSE: &str = "session/close";
/// Deletes a session.
pub const SESSION_DELETE: &str = "session/delete";
/// Sends a prompt.
pub const SESSION_PROMPT: &str = "session/prompt";
/// Says something in the middle of a turn; an extension of some agents.
pub const STEERING: &str = "_session/steering";
/// Cancels the turn of a session.
pub const SESSION_CANCEL: &str = "session/cancel";
/// Changes the mode of a session.
pub const SESSION_SET_MODE: &str = "session/set_mode";
/// Changes the model of a session; unstable.
pub const SESSION_SET_MODEL: &str = "session/set_model";
/// Changes a config option of a session.
pub const SESSION_SET_CONFIG_OPTION: &str = "session/set_config_option";
/// Says with which options a session would start; unstable.
pub const SESSION_OPTIONS: &str = "session/options";
/// Copies a session; unstable.
pub const SESSION_FORK: &str = "session/fork";
/// Reads the history of a session; an extension.
pub const SESSION_GET: &str = "session/get";
/// Lists the places at which a session can be forked; an extension.
pub const CURSORS: &str = "_rejoin/cursors";
/// Finds places in conversations; an extension.
pub const SEARCH: &str = "_rejoin/search";
/// Lets the conversation of a session go on from an earlier place; an extension.
pub const REWIND: &str = "_rejoin/rewind";
/// Lets the conversation of a session go on from behind a message; a draft.
pub const SESSION_REWIND: &str = "session/rewind";
/// Puts another prompt in the place of an earlier one; in the protocol's drafts.
pub const SESSION_EDIT_PROMPT: &str = "session/edit_prompt";
/// Gives a session a title; unstable.
pub const SESSION_SET_TITLE: &str = "session/set_title";
/// Hides a session from lists; unstable.
pub const SESSION_ARCHIVE: &str = "session/archive";
/// Shows an archived session in lists again; unstable.
pub const SESSION_UNARCHIVE: &str = "session/unarchive";
/// Says whether a session is busy; unstable.
pub const SESSION_STATUS: &str = "session/status";
/// Cancels one tool call; version 2.
pub const TOOL_CALL_CANCEL: &str = "tool_call/cancel";
/// Cancels the command of one terminal; version 2.
pub const TERMINAL_CANCEL: &str = "terminal/cancel";

/// The notification with a session's update.
pub const SESSION_UPDATE: &str = "session/update";
/// The notification with changes in a list; unstable.
pub const SESSION_LIST_CHANGES: &str = "session/list/changes";
/// The notification with changes in a folder's list; JetBrains' session index.
pub const INDEX_CHANGES: &str = "_session/list/changes";
/// The notification that changes in a list were missed; unstable.
pub const SESSION_LIST_RESYNC: &str = "session/list/resync";
/// The notification that the list of a folder has changed; unstable.
pub const SESSION_LIST_CHANGED: &str = "session/list_changed";
/// Asks the user to allow a tool call.
pub const REQUEST_PERMISSION: &str = "session/request_permission";
/// Asks the user for input; unstable.
pub const ELICITATION_CREATE: &str = "elicitation/create";
/// Reads a text file of the client.
pub const READ_TEXT_FILE: &str = "fs/read_text_file";
/// Writes a text file of the client.
pub const WRITE_TEXT_FILE: &str = "fs/write_text_file";
/// Starts a command in a terminal of the client.
pub const TERMINAL_CREATE: &str = "terminal/create";
/// Reads what a terminal has shown.
pub const TERMINAL_OUTPUT: &str = "terminal/output";
/// Waits for the command of a terminal to end.
pub const TERMINAL_WAIT_FOR_EXIT: &str = "terminal/wait_for_exit";
/// Kills the command of a terminal.
pub const TERMINAL_KILL: &str = "terminal/kill";
/// Frees a terminal.
pub const TERMINAL_RELEASE: &str = "terminal/release";

/// Whether a request by this name is about files or terminals, which are those of the client's machine:
/// only the client that has sent the prompt can serve it, and version 2 has none of them.
pub fn is_of_client_machine(method: &str) -> bool {
    method.starts_with("fs/") || method.starts_with("terminal/")
}

/// Methods that answer for a session that is not found with the protocol's code for any resource.
pub const NOT_FOUND_AS_RESOURCE: [&str; 10] = [
    SESSION_ARCHIVE,
    SESSION_UNARCHIVE,
    SESSION_SET_TITLE,
    SESSION_STATUS,
    SESSION_OPTIONS,
    SESSION_REWIND,
    SESSION_EDIT_PROMPT,
    INDEX_ARCHIVE,
    INDEX_RENAME,
    INDEX_UNARCHIVE,
];

/// The envelope of messages between a proxy and what comes after it in the chain.
pub const PROXY_SUCCESSOR: &str = "proxy/successor";
