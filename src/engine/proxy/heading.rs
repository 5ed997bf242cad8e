//! Finds the parts of a line that decide where it is dispatched: its id, method and parameters.

use std::ops::Range;

use serde_json::value::RawValue;

use crate::json;

/// A part of a line.
pub(super) type Span = Range<usize>;

/// The parts of a message that it is dispatched by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heading {
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
pub(super) fn read(line: &[u8]) -> Option<Heading> {
    let (heading, end) = scan(line)?;
    let rest = line.get(end?..)?;
    rest.iter().all(u8::is_ascii_whitespace).then_some(heading)
}

/// Reads what the beginning of a line shows, for a line that is not read to its end.
pub(super) fn begin(start: &[u8]) -> Heading {
    scan(start).map(|(heading, _)| heading).unwrap_or_default()
}

fn scan(line: &[u8]) -> Option<(Heading, Option<usize>)> {
    let mut heading = Heading::default();
    let mut members = json::members(line, 0)?;
    while let Some(member) = members.member() {
        let part = match &line[member.key] {
            b"id" => &mut heading.id,
            b"method" => &mut heading.method,
            b"params" => &mut heading.params,
            _ => continue,
        };
        if part.replace(member.value).is_some() {
            return None;
        }
    }
    Some((heading, members.end()))
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
    fn parts_are_found_wherever_they_stand() {
        let line =
            r#" {"params" : {"id":2,"method":"x"} ,"id":"s\"1","jsonrpc":"2.0","method":"m"} "#;
        let heading = read(line.as_bytes()).unwrap();
        assert_eq!(text(line, heading.id.as_ref()), Some(r#""s\"1""#));
        assert_eq!(text(line, heading.method.as_ref()), Some(r#""m""#));
        let params = text(line, heading.params.as_ref());
        assert_eq!(params, Some(r#"{"id":2,"method":"x"}"#));
    }

    #[test]
    fn what_is_no_object_or_says_things_twice_is_left_to_others() {
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
    fn a_line_that_was_cut_off_shows_what_came_before() {
        let start = r#"{"jsonrpc":"2.0","id":"s1.2","result":{"x":"yyy"#;
        let heading = begin(start.as_bytes());
        assert_eq!(text(start, heading.id.as_ref()), Some("\"s1.2\""));
        assert_eq!(heading.method, None);
    }
}
