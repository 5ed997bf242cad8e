//! The methods of both versions of the protocol: each decodes its parameters and says what serves
//! it.

mod action;
mod agent_list;
mod cancel;
mod content;
mod context;
mod delete;
mod dispatch;
mod cursors;
mod fork;
mod forward;
mod get;
mod get_part;
mod initialize;
mod changes;
mod list;
mod list_v2;
mod notices;
mod subscribe;
mod tool_changes;
mod open;
mod options;
mod params;
mod prompt;
mod result;
mod row;
mod rewind;
mod search;
mod session;
mod session_index;
mod settings;
mod workspace;

pub(super) use context::ConnectionContext;
pub(super) use dispatch::{notification, request};
pub(super) use initialize::{check_repeated, choose_version, client, initialize};
