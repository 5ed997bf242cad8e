//! The notification of a record as it was sent live to its client.

use crate::json;
use crate::record::Kind;

use super::envelope::{live_line, live_params_line, live_subagent_line, mark_v2};

/// Appends the line that the client is sent live for a record. Appends nothing for a kind of record
/// that is never sent or only sent by replays. The view knows the updates of version 2 by their
/// lines.
pub fn live_record_line(session_id: &str, kind: Kind, payload: &str, out: &mut Vec<u8>) {
    let start = out.len();
    match kind {
        Kind::Update => live_line(session_id, payload, out),
        Kind::UpdateParams => live_params_line(session_id, payload, out),
        Kind::Subagent => live_subagent_line(payload, out),
        Kind::UpdateV2 | Kind::TransientV2 => {
            live_params_line(session_id, payload, out);
            mark_v2(start, out);
        }
        Kind::SubagentV2 => {
            live_subagent_line(payload, out);
            mark_v2(start, out);
        }
        Kind::Info | Kind::Transient => match LiveForm::of(payload.as_bytes()) {
            Some(LiveForm::Update) => live_line(session_id, payload, out),
            Some(LiveForm::Params) => live_params_line(session_id, payload, out),
            None => {}
        },
        _ => {}
    }
}

/// The form of an update in an `info` or `transient` record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiveForm {
    /// As an update object.
    Update,
    /// As the parameters of a notification.
    Params,
}

impl LiveForm {
    /// `None` for our own records, which are never sent.
    pub(super) fn of(payload: &[u8]) -> Option<Self> {
        if json::member(payload, 0, "sessionUpdate").is_some() {
            return Some(Self::Update);
        }
        let update = json::member(payload, 0, "update")?;
        json::member(payload, update.start, "sessionUpdate").map(|_| Self::Params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, payload: &str) -> String {
        let mut out = Vec::new();
        live_record_line("s", kind, payload, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_was_sent_is_sent_and_nothing_else() {
        let update = r#"{"sessionUpdate":"usage_update","used":1.0}"#;
        let params = format!(r#"{{"update":{update},"_meta":{{}}}}"#);
        let head = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","#;
        let plain = format!("{head}\"update\":{update}}}}}\n");
        let whole = format!("{head}\"update\":{update},\"_meta\":{{}}}}}}\n");
        for kind in [Kind::Update, Kind::Transient, Kind::Info] {
            assert_eq!(line(kind, update), plain);
        }
        for kind in [Kind::UpdateParams, Kind::Info, Kind::Transient] {
            assert_eq!(line(kind, &params), whole);
        }
        let head = r#"{"method":"session/update","jsonrpc":"2.0","params":{"sessionId":"s","#;
        let whole = format!("{head}\"update\":{update},\"_meta\":{{}}}}}}\n");
        for kind in [Kind::UpdateV2, Kind::TransientV2] {
            assert_eq!(line(kind, &params), whole);
        }
        let subagent = format!(r#"{{"sessionId":"s",{}"#, &params[1..]);
        assert_eq!(line(Kind::SubagentV2, &subagent), whole);
        for kind in [
            Kind::Output,
            Kind::Prompt,
            Kind::Ask,
            Kind::End,
            Kind::Unknown,
        ] {
            assert_eq!(line(kind, update), "");
        }
        for own in [
            "{}",
            r#"{"update":{}}"#,
            r#"{"update":7}"#,
            "7",
            r#"{"title":"t"}"#,
        ] {
            assert_eq!(line(Kind::Info, own), "");
        }
    }
}
