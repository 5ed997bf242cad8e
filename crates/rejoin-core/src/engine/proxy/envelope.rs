//! Finds the parts of a line that decide where it is dispatched: its id, method and parameters.

use std::ops::Range;

use serde_json::value::RawValue;

use crate::json;

/// A part of a line.
pub(super) type Span = Range<usize>;

/// The parts of a message that it is dispatched by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DispatchSpans {
    pub(super) id: Option<Span>,
    /// The method's JSON text, quotes included.
    pub(super) method: Option<Span>,
    pub(super) params: Option<Span>,
}

/// A message inside the parameters of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    /// The method's JSON text, quotes included.
    pub(super) method: Span,
    /// The parameters, if there are any.
    pub(super) params: Option<Span>,
}

/// Reads a line. `None` if it is not an object, or if a member occurs twice; whether its values are
/// valid JSON is not checked.
pub(super) fn read(line: &[u8]) -> Option<DispatchSpans> {
    let (envelope, end) = scan(line)?;
    let rest = line.get(end?..)?;
    rest.iter().all(u8::is_ascii_whitespace).then_some(envelope)
}

/// Reads what the beginning of a line shows, for a line that is not read to its end.
pub(super) fn begin(start: &[u8]) -> DispatchSpans {
    scan(start)
        .map(|(envelope, _)| envelope)
        .unwrap_or_default()
}

fn scan(line: &[u8]) -> Option<(DispatchSpans, Option<usize>)> {
    let mut envelope = DispatchSpans::default();
    let mut members = json::members(line, 0)?;
    while let Some(member) = members.member() {
        let part = match &line[member.key] {
            b"id" => &mut envelope.id,
            b"method" => &mut envelope.method,
            b"params" => &mut envelope.params,
            _ => continue,
        };
        if part.replace(member.value).is_some() {
            return None;
        }
    }
    Some((envelope, members.end()))
}

/// Finds the message in the parameters of `proxy/successor`, if there is one.
pub(super) fn unwrap(line: &[u8], params: &Span) -> Option<Wrapped> {
    let (mut method, mut inner) = (None, None);
    let mut members = json::members(line, params.start)?;
    while let Some(member) = members.member() {
        match &line[member.key] {
            b"method" => method = Some(member.value),
            b"params" => inner = Some(member.value),
            _ => {}
        }
    }
    let method = method.filter(|at| line[at.start] == b'"')?;
    let params = match inner {
        Some(at) if line[at.start] == b'{' => Some(at),
        Some(at) if &line[at.clone()] == b"null" => None,
        None => None,
        Some(_) => return None,
    };
    members.end().map(|_| Wrapped { method, params })
}

/// Whether a line is valid JSON.
pub(super) fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(line: &'a str, at: Option<&Span>) -> Option<&'a str> {
        at.cloned().map(|at| &line[at])
    }

    #[test]
    fn parts_are_found_in_any_order() {
        let line =
            r#" {"params" : {"id":2,"method":"x"} ,"id":"s\"1","jsonrpc":"2.0","method":"m"} "#;
        let envelope = read(line.as_bytes()).unwrap();
        assert_eq!(text(line, envelope.id.as_ref()), Some(r#""s\"1""#));
        assert_eq!(text(line, envelope.method.as_ref()), Some(r#""m""#));
        let params = text(line, envelope.params.as_ref());
        assert_eq!(params, Some(r#"{"id":2,"method":"x"}"#));
    }

    #[test]
    fn malformed_lines_and_repeated_members_are_not_read() {
        for line in [
            "",
            "7",
            "[{}]",
            "{",
            "{} {}",
            r#"{"id":1,"id":2}"#,
            r#"{"method":"a","method":"b"}"#,
        ] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_message_inside_is_found() {
        for (params, method, inner) in [
            (
                r#"{"method":"m","params":{"a":[1]}}"#,
                "\"m\"",
                Some(r#"{"a":[1]}"#),
            ),
            (
                r#"{"_meta":{"method":"x"},"params":null,"method":"m"}"#,
                "\"m\"",
                None,
            ),
            (r#"{ "method" : "m" }"#, "\"m\"", None),
        ] {
            let found = unwrap(params.as_bytes(), &(0..params.len())).unwrap();
            assert_eq!(&params[found.method.clone()], method, "{params}");
            assert_eq!(text(params, found.params.as_ref()), inner, "{params}");
        }
        for params in [
            "null",
            "[]",
            "{}",
            r#"{"method":7}"#,
            r#"{"method":"m","params":[]}"#,
            r#"{"method":"m","params":{}"#,
        ] {
            assert_eq!(
                unwrap(params.as_bytes(), &(0..params.len())),
                None,
                "{params}"
            );
        }
    }

    #[test]
    fn a_truncated_line_has_the_members_before_its_end() {
        let start = r#"{"jsonrpc":"2.0","id":"s1.2","result":{"x":"yyy"#;
        let envelope = begin(start.as_bytes());
        assert_eq!(text(start, envelope.id.as_ref()), Some("\"s1.2\""));
        assert_eq!(envelope.method, None);
    }
}
