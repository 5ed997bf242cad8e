//! `/write`: writes a text file.

use serde_json::{Value, json};

use crate::engine::demo::describe::{counted, quote};
use crate::engine::demo::sample::text;
use crate::engine::demo::turn::{Done, Stop, Turn, to_the_end};
use crate::json as plain;

use super::client::{ask, problem};
use super::files::{self, Before};
use super::inside::Inside;
use super::path::{Named, inside, named, outside};
use super::permission::{Action, Verdict, may};
use super::shown::{Shown, Worked};

/// A longer text is written, but not shown as a diff, in bytes.
const COMPARED: usize = 1024 * 1024;

/// Writes a file through the client, or directly.
pub(crate) async fn write(turn: &Turn<'_>, rest: &str) -> Done {
    let Some(file) = named(rest, turn.cwd()) else {
        let text = format!(
            "`/write` takes a path, in double quotes if it has spaces, and the text behind it; {} \
             is not that.",
            quote(rest)
        );
        return turn.say_all(&text).await;
    };
    let call = Shown {
        id: turn.new_tool_call(),
        title: format!("Write {}", file.short(turn.cwd())),
        kind: "edit",
        locations: vec![json!({ "path": file.path })],
        raw_input: json!({ "path": file.path, "content": file.rest }),
    };
    call.during(turn, work(turn, &call, &file)).await
}

async fn work(turn: &Turn<'_>, call: &Shown, file: &Named) -> Result<Worked, Stop> {
    let place = turn.place().clone();
    let path = file.path.clone();
    let here = turn.on_disk(move || inside(&place, &path)).await?;
    let failed = |reason: &str| {
        Ok(Worked::failed(&format!(
            "cannot write `{}`: {reason}",
            file.path
        )))
    };
    let by_client = turn.client().writes;
    let here = match here {
        Ok(here) => here,
        Err(_) if by_client => None,
        Err(error) => return failed(&error.to_string()),
    };
    if here.is_none() && !by_client {
        let reason = outside(turn.place(), &file.path);
        return Ok(Worked::failed(&format!("not written: {reason}")));
    }
    let deed = Action {
        about: if here.is_some() {
            "write files"
        } else {
            "write files outside of the session's folders"
        },
        changes: true,
    };
    // A write that the mode rejects needs no old content, and outside of the session's folders the
    // file must not be read without permission.
    let known = if here.is_some() && !turn.settings().mode.only_reads() {
        Some(look(turn, file, here.clone()).await?)
    } else {
        None
    };
    let shown = known.as_ref().map(|before| diff(file, before));
    let shown = shown.as_deref().unwrap_or_default();
    if let Verdict::Refused(reason) = may(turn, &call.call(), deed, shown).await? {
        return Ok(Worked::failed(&reason));
    }
    call.begins(turn).await?;
    let before = match known {
        Some(before) => before,
        None => look(turn, file, here.clone()).await?,
    };
    if by_client {
        let params = json!({ "path": file.path, "content": file.rest }).to_string();
        if let Err(error) = ask(turn, "fs/write_text_file", &params, false).await? {
            return failed(&problem(&error));
        }
    } else if let Some(inside) = here {
        let (text, unique) = (file.rest.clone(), turn.unique());
        let write = move || files::write(&inside, &text, &unique);
        if let Err(reason) = to_the_end(write).await? {
            return failed(&reason);
        }
    }
    let bytes = file.rest.len();
    Ok(Worked {
        content: Some(diff(file, &before)),
        raw_output: Some(json!({ "bytes": bytes, "created": before == Before::Nothing })),
        said: format!("Wrote {}.", counted(bytes as u64, "byte")),
        ..Worked::default()
    })
}

/// The current content of the file, as the client has it, or else from the disk.
async fn look(turn: &Turn<'_>, file: &Named, here: Option<Inside>) -> Result<Before, Stop> {
    if turn.client().reads && turn.client().writes {
        let params = json!({ "path": file.path }).to_string();
        if let Ok(answer) = ask(turn, "fs/read_text_file", &params, false).await?
            && let Some(content) = plain::string_member(&answer, "content")
        {
            return Ok(if content.len() > COMPARED {
                Before::Unshown("what was there is too long")
            } else {
                Before::Text(content)
            });
        }
    }
    match here {
        Some(inside) => turn.on_disk(move || files::before(&inside)).await,
        // A client that can read files has just reported that it cannot read this one.
        None if turn.client().reads => Ok(Before::Nothing),
        None => Ok(Before::Unshown("what was there could not be read")),
    }
}

fn diff(file: &Named, before: &Before) -> Vec<Value> {
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
