//! The parameters of `session/get`: turns, a whole tool call, or a part of another tool's file.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::history::query::{TurnsParams, TurnsQuery};
use crate::history::{CursorsPosition, one_call};
use crate::server::error::{self, Error};
use crate::sources::import::ImportError;
use crate::sys::{SessionId, with_causes};

use super::get::{SessionReading, stopped, with_text};
use super::params::Integer;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params {
    pub(super) session_id: String,
    #[serde(default)]
    limit: Option<Integer>,
    #[serde(default)]
    offset: Option<Integer>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    raw: Option<Raw>,
    /// Whether what rewinds have undone is read, too.
    #[serde(default)]
    pub(super) all_branches: Option<bool>,
}

/// A part of the file in which another tool keeps the conversation.
#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    offset: Option<Integer>,
    #[serde(default)]
    length: Option<Integer>,
}

/// The length of a part of a file in bytes, if the client does not say how long it may be.
const PART: i64 = 1024 * 1024;

/// The shortest part has a whole character, and the longest part is as long as a page.
const SHORTEST_PART: i64 = 4;
const LONGEST_PART: i64 = 8 * PART;

/// The part of a session that is read.
pub(super) enum Wanted {
    /// A page of turns.
    Turns(TurnsQuery),
    /// A page of the places at which the session can be forked.
    Cursors(CursorsPosition),
    /// The tool call with this id.
    Call(String),
    /// A part of the file that another tool has.
    Part { offset: u64, length: usize },
}

impl Wanted {
    pub(super) fn of(params: &mut Params, id: &SessionId) -> Result<Self, String> {
        let number = |number: Option<Integer>| number.map(|Integer(number)| number);
        let turns = TurnsParams {
            limit: number(params.limit.take()),
            offset: number(params.offset.take()),
            cursor: params.cursor.take(),
        };
        let is_page = turns.limit.is_some() || turns.offset.is_some() || turns.cursor.is_some();
        match (params.tool_call_id.take(), params.raw.take()) {
            (None, None) => Ok(Self::Turns(turns.check(id)?)),
            (Some(call), None) if !is_page => Ok(Self::Call(call)),
            (None, Some(raw)) if !is_page => {
                let offset = u64::try_from(number(raw.offset).unwrap_or(0));
                let length = number(raw.length)
                    .unwrap_or(PART)
                    .clamp(SHORTEST_PART, LONGEST_PART);
                Ok(Self::Part {
                    offset: offset.map_err(|_| "`raw.offset` must not be negative")?,
                    length: usize::try_from(length).unwrap_or(usize::MAX),
                })
            }
            _ => Err(
                "`toolCallId`, `raw` and the parameters of a page exclude each other".to_owned(),
            ),
        }
    }
}

impl SessionReading<'_> {
    /// A tool call with all that it was given and returned, and where its records are in the file of
    /// the tool that has the conversation.
    pub(super) fn call(&self, id: &str) -> Result<String, Error> {
        let mut log = self.log().map_err(|refusal| self.refused(refusal))?;
        let call = one_call(&mut log, id, self.deps.client.line_limit, self.cancelled);
        let call = call.map_err(|error| self.refused(stopped(error)))?;
        let call = call.ok_or_else(|| {
            error::invalid_params("`toolCallId` is not the id of a tool call of this session")
        })?;
        let mut session = self.session();
        if call.truncated {
            session.insert("truncated".to_owned(), true.into());
        }
        if let Some(tools) = self.tools {
            let records = tools.sources.records_of_call(&tools.catalog, self.id, id);
            let records = records.unwrap_or_else(|error| {
                let error = with_causes(&error);
                tracing::warn!(session = %self.id, error, "cannot read the file of another tool");
                Vec::new()
            });
            let place = |part: &std::ops::Range<usize>| -> Value {
                json!({ "offset": part.start, "length": part.len() })
            };
            if !records.is_empty() {
                let records = records.iter().map(place).collect();
                session.insert("raw".to_owned(), records);
            }
        }
        Ok(with_text(session, "toolCall", &call.call))
    }

    /// A part of the file in which another tool keeps the conversation.
    pub(super) fn part(&self, offset: u64, length: usize) -> Result<String, Error> {
        let part = self.tools.map_or(Ok(None), |tools| {
            tools.sources.part(&tools.catalog, self.id, offset, length)
        });
        let failed = |error: ImportError| error::storage_failed(with_causes(&error));
        let part = part.map_err(failed)?.ok_or_else(|| {
            error::invalid_params("`raw`: no tool that is listed has this conversation in a file")
        })?;
        if offset > part.size {
            let problem = format!(
                "`raw.offset` is behind the end of the file, which has {} bytes",
                part.size
            );
            return Err(error::invalid_params(problem));
        }
        let mut raw = json!({
            "path": part.path,
            "size": part.size,
            "offset": part.offset,
            "length": part.end - part.offset,
            "text": part.text,
        });
        if part.end < part.size {
            raw["nextOffset"] = part.end.into();
        }
        if part.has_marks {
            raw["invalidUtf8"] = true.into();
        }
        let mut session = self.session();
        session.insert("raw".to_owned(), raw);
        Ok(Value::Object(session).to_string())
    }
}
