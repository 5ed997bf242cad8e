//! `/write`: writes a text file.

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolKind};
use serde_json::{Value, json};

use crate::engine::demo::command::{DemoCommand, usage};
use crate::engine::demo::describe::counted;
use crate::engine::demo::settings::PermissionMode;
use crate::engine::demo::tool_call::{ToolCall, ToolResult, text};
use crate::engine::demo::turn::{DemoTurn, Done, EarlyStop, uninterrupted};
use crate::json;
use crate::protocol::method::{READ_TEXT_FILE, WRITE_TEXT_FILE};

use super::client::{ask, problem};
use super::confined::ConfinedFile;
use super::files::{self, Before, COMPARED};
use super::path::{NamedFile, inside, named, outside};
use super::permission::{GuardedAction, Permission, may};

/// Writes a file through the client, or directly.
pub(crate) async fn write(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let Some(file) = named(rest, turn.cwd()) else {
        let explanation = "A PATH with spaces is put in double quotes.";
        return turn
            .say_all(&usage(DemoCommand::Write, explanation, rest))
            .await;
    };
    let title = format!("Write {}", file.short(turn.cwd()));
    let locations = vec![ToolCallLocation::new(&file.path)];
    let raw_input = json!({ "path": file.path, "content": file.rest });
    let call = ToolCall::new(turn, title, ToolKind::Edit, locations, &raw_input);
    call.answer(turn, work(turn, &call, &file)).await
}

async fn work(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    file: &NamedFile,
) -> Result<ToolResult, EarlyStop> {
    let (workspace, path) = (turn.workspace().clone(), file.path.clone());
    let confined = turn.on_disk(move || inside(&workspace, &path)).await?;
    let failed = |reason: &str| {
        let reason = format!("cannot write `{}`: {reason}", file.path);
        Ok(ToolResult::failed(&reason))
    };
    let by_client = turn.opening.client.writes;
    let confined = match confined {
        Ok(confined) => confined,
        Err(_) if by_client => None,
        Err(error) => return failed(&error.to_string()),
    };
    if confined.is_none() && !by_client {
        let reason = outside(turn.workspace(), &file.path);
        return Ok(ToolResult::failed(&format!("not written: {reason}")));
    }
    let action = GuardedAction {
        about: if confined.is_some() {
            "write files"
        } else {
            "write files outside of the session's folders"
        },
        changes: true,
    };
    // A write that the mode rejects needs no old content, and outside of the session's folders the
    // file must not be read without permission.
    let known = if confined.is_some() && turn.settings().mode != PermissionMode::ReadOnly {
        Some(look(turn, file, confined.clone()).await?)
    } else {
        None
    };
    let shown = known.as_ref().map(|before| diff(file, before));
    let shown = shown.as_deref().unwrap_or_default();
    if let Permission::Refused(reason) = may(turn, call, action, shown).await? {
        return Ok(ToolResult::failed(&reason));
    }
    call.progress(turn, None).await?;
    let before = match known {
        Some(before) => before,
        None => look(turn, file, confined.clone()).await?,
    };
    if by_client {
        let params = json!({ "path": file.path, "content": file.rest }).to_string();
        if let Err(error) = ask(turn, WRITE_TEXT_FILE, &params, false).await? {
            return failed(&problem(&error));
        }
    } else if let Some(confined) = confined {
        let unique = turn.opening.ids.uuid().simple().to_string();
        let text = file.rest.clone();
        let write = move || files::write(&confined, &text, &unique);
        if let Err(reason) = uninterrupted(write).await? {
            return failed(&reason);
        }
    }
    let bytes = file.rest.len();
    Ok(ToolResult {
        content: Some(diff(file, &before)),
        raw_output: Some(json!({ "bytes": bytes, "created": before == Before::Nothing })),
        comment: format!("Wrote {}.", counted(bytes as u64, "byte")),
        ..ToolResult::default()
    })
}

/// The current content of the file, as the client has it, or else from the disk.
async fn look(
    turn: &DemoTurn<'_>,
    file: &NamedFile,
    confined: Option<ConfinedFile>,
) -> Result<Before, EarlyStop> {
    let client = turn.opening.client;
    if client.reads && client.writes {
        let params = json!({ "path": file.path }).to_string();
        if let Ok(answer) = ask(turn, READ_TEXT_FILE, &params, false).await?
            && let Some(content) = json::string_member(&answer, "content")
        {
            return Ok(if content.len() > COMPARED {
                Before::Unshown("the old content is too long")
            } else {
                Before::Text(content)
            });
        }
    }
    match confined {
        Some(confined) => turn.on_disk(move || files::before(&confined)).await,
        // A client that can read files has just reported that it cannot read this one.
        None if client.reads => Ok(Before::Nothing),
        None => Ok(Before::Unshown("the old content could not be read")),
    }
}

fn diff(file: &NamedFile, before: &Before) -> Vec<Value> {
    let old = match before {
        _ if file.rest.len() > COMPARED => {
            return vec![text("[the text is too long to be shown]")];
        }
        Before::Nothing => Value::Null,
        Before::Text(old) => old.as_str().into(),
        Before::Unshown(why) => return vec![text(&format!("[{why}]"))],
    };
    vec![json!({ "type": "diff", "path": file.path, "oldText": old, "newText": file.rest })]
}
