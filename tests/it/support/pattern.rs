//! Holds what came against what a fixture expects: names for ids, and places where anything goes.

use std::collections::BTreeMap;

use super::json::Json;

/// The values of a fixture's names, such as `session:0`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

/// Where and why a value is not what was expected.
#[derive(Debug)]
pub(crate) struct Mismatch {
    path: String,
    reason: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "at {path}: {}", self.reason),
        }
    }
}

/// The kinds of names whose values have a form, and what that is: `#` is a hexadecimal digit, `9`
/// a decimal one.
const FORMS: [(&str, &str); 5] = [
    ("session", "sess_########-####-####-####-############"),
    ("msg", "msg_################################"),
    ("call", "call_################################"),
    ("inner", "inner_################################"),
    ("time", "9999-99-99T99:99:99.999Z"),
];

/// A part of a string in a pattern.
#[derive(Clone, Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    /// `<kind:n>`
    Name(&'a str),
    /// `<pad:n>`: so many times the letter x.
    Pad(usize),
    /// `<...>`
    Anything,
}

impl Names {
    /// Gives a name its value.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A text with the values of all its names.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        self.filled(text, str::to_owned)
    }

    /// The same for JSON, in which values are parts of strings.
    pub(crate) fn fill_json(&self, text: &str) -> Result<String, String> {
        self.filled(text, |value| {
            let quoted = Json::String(value.to_owned()).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        })
    }

    fn filled(&self, text: &str, spell: fn(&str) -> String) -> Result<String, String> {
        let mut filled = String::new();
        for part in parts(text) {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Pad(count) => filled.extend(std::iter::repeat_n('x', count)),
                Part::Name(name) => match self.get(name) {
                    Some(value) => filled.push_str(&spell(value)),
                    None => return Err(format!("<{name}> has no value yet")),
                },
                Part::Anything => return Err("<...> cannot be sent".to_owned()),
            }
        }
        Ok(filled)
    }

    /// Holds a value against a pattern. Names that appear for the first time are given their
    /// values, if all of it fits.
    pub(crate) fn check(&mut self, pattern: &Json, value: &Json) -> Result<(), Mismatch> {
        let mut names = self.clone();
        names.value(pattern, value, "")?;
        *self = names;
        Ok(())
    }

    /// The same for a text.
    pub(crate) fn check_text(&mut self, pattern: &str, text: &str) -> Result<(), Mismatch> {
        let mut names = self.clone();
        names.string(pattern, text, "")?;
        *self = names;
        Ok(())
    }

    fn value(&mut self, pattern: &Json, value: &Json, path: &str) -> Result<(), Mismatch> {
        let wrong = |reason: String| Mismatch {
            path: path.to_owned(),
            reason,
        };
        match (pattern, value) {
            (Json::String(any), _) if any == "..." => Ok(()),
            (Json::String(pattern), Json::String(text)) => self.string(pattern, text, path),
            // A number may have a name, too.
            (Json::String(pattern), Json::Literal(text))
                if matches!(parts(pattern)[..], [Part::Name(_)]) =>
            {
                self.string(pattern, text, path)
            }
            (Json::Literal(pattern), Json::Literal(text)) if pattern == text => Ok(()),
            (Json::Array(patterns), Json::Array(items)) => {
                if patterns.len() != items.len() {
                    let (expected, found) = (patterns.len(), items.len());
                    return Err(wrong(format!("{found} items instead of {expected}")));
                }
                for (at, (pattern, item)) in patterns.iter().zip(items).enumerate() {
                    self.value(pattern, item, &format!("{path}[{at}]"))?;
                }
                Ok(())
            }
            (Json::Object(patterns), Json::Object(members)) => self.object(patterns, members, path),
            _ => Err(wrong(format!("{value} instead of {pattern}"))),
        }
    }

    fn object(
        &mut self,
        patterns: &[(String, Json)],
        members: &[(String, Json)],
        path: &str,
    ) -> Result<(), Mismatch> {
        let wrong = |reason: String| Mismatch {
            path: path.to_owned(),
            reason,
        };
        let mut left: Vec<_> = members.iter().collect();
        let mut more = false;
        for (name, pattern) in patterns {
            if name == "..." {
                more = true;
                continue;
            }
            let Some(at) = left.iter().position(|(member, _)| member == name) else {
                return Err(wrong(format!("`{name}` is missing")));
            };
            let (_, value) = left.remove(at);
            self.value(pattern, value, &format!("{path}.{name}"))?;
        }
        match left.first() {
            Some((name, value)) if !more => Err(wrong(format!("unexpected `{name}`: {value}"))),
            _ => Ok(()),
        }
    }

    fn string(&mut self, pattern: &str, text: &str, path: &str) -> Result<(), Mismatch> {
        let Some(names) = self.fit(&parts(pattern), text) else {
            return Err(Mismatch {
                path: path.to_owned(),
                reason: format!("{text:?} instead of {pattern:?}"),
            });
        };
        *self = names;
        Ok(())
    }

    /// The names after a text was held against parts of a pattern; `None` if it does not fit.
    fn fit(&self, parts: &[Part<'_>], text: &str) -> Option<Self> {
        let Some((first, rest)) = parts.split_first() else {
            return text.is_empty().then(|| self.clone());
        };
        match first {
            Part::Text(expected) => self.fit(rest, text.strip_prefix(expected)?),
            Part::Pad(count) => self.fit(rest, text.strip_prefix(&*"x".repeat(*count))?),
            Part::Anything => ends(text).find_map(|end| self.fit(rest, &text[end..])),
            Part::Name(name) => {
                if let Some(value) = self.get(name) {
                    return self.fit(rest, text.strip_prefix(value)?);
                }
                let kind = name.split(':').next().unwrap_or_default();
                if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == kind) {
                    let value = text.get(..form.len()).filter(|text| has_form(text, form))?;
                    return self.named(name, value)?.fit(rest, &text[value.len()..]);
                }
                ends(text)
                    .skip(1)
                    .find_map(|end| self.named(name, &text[..end])?.fit(rest, &text[end..]))
            }
        }
    }

    /// These names and one more. Two names of one kind are two ids; only times may be equal.
    fn named(&self, name: &str, value: &str) -> Option<Self> {
        let kind = name.split(':').next().unwrap_or_default();
        let taken = self.0.iter().any(|(other, known)| {
            known == value && other.split(':').next() == Some(kind) && kind != "time"
        });
        let mut names = self.clone();
        names.set(name, value.to_owned());
        (!taken).then_some(names)
    }

    /// A value with a name in the place of everything that has the form of one; unknown values get
    /// new names.
    pub(crate) fn abstracted(&mut self, value: &Json) -> Json {
        match value {
            Json::Object(members) => Json::Object(
                members
                    .iter()
                    .map(|(name, value)| {
                        // Long, and shown in one fixture only.
                        let value = match (name.as_str(), value) {
                            ("availableCommands", _) => Json::String("...".to_owned()),
                            ("cursorId", Json::String(id)) => {
                                Json::String(format!("<{}>", self.name_of("cursor", id)))
                            }
                            (_, value) => self.abstracted(value),
                        };
                        (name.clone(), value)
                    })
                    .collect(),
            ),
            Json::Array(items) => {
                Json::Array(items.iter().map(|item| self.abstracted(item)).collect())
            }
            Json::String(text) => Json::String(self.abstracted_text(text)),
            Json::Literal(_) => value.clone(),
        }
    }

    /// The same for a text.
    pub(crate) fn abstracted_text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        'next: while let Some(first) = rest.chars().next() {
            for (kind, form) in FORMS {
                let value = rest.get(..form.len()).filter(|text| has_form(text, form));
                if let Some(value) = value {
                    out.extend(["<", &self.name_of(kind, value), ">"]);
                    rest = &rest[value.len()..];
                    continue 'next;
                }
            }
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
        out
    }

    fn name_of(&mut self, kind: &str, value: &str) -> String {
        let of_kind = |name: &str| name.split(':').next() == Some(kind);
        let known = self.0.iter().find(|(name, v)| *v == value && of_kind(name));
        if let Some((name, _)) = known {
            return name.clone();
        }
        let count = self.0.keys().filter(|name| of_kind(name)).count();
        let name = format!("{kind}:{count}");
        self.set(&name, value.to_owned());
        name
    }
}

/// A line is held against the members that are given.
pub(super) fn partial(line: &Json) -> Json {
    match line {
        Json::Object(members) => {
            let rest = ("...".to_owned(), Json::String("...".to_owned()));
            Json::Object(members.iter().cloned().chain([rest]).collect())
        }
        other => other.clone(),
    }
}

/// Every place where a text may be cut, from the front.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    (0..=text.len()).filter(|end| text.is_char_boundary(*end))
}

fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text
            .bytes()
            .zip(form.bytes())
            .all(|(byte, form)| match form {
                b'#' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                b'9' => byte.is_ascii_digit(),
                _ => byte == form,
            })
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut plain = text;
    let mut from = 0;
    while let Some(open) = plain[from..].find('<').map(|at| from + at) {
        let Some(close) = plain[open..].find('>').map(|at| open + at) else {
            break;
        };
        let Some(part) = part(&plain[open + 1..close]) else {
            from = open + 1;
            continue;
        };
        if open > 0 {
            parts.push(Part::Text(&plain[..open]));
        }
        parts.push(part);
        plain = &plain[close + 1..];
        from = 0;
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    parts
}

/// The name between angle brackets, unless it is just text.
fn part(inside: &str) -> Option<Part<'_>> {
    if inside == "..." {
        return Some(Part::Anything);
    }
    let (kind, number) = inside.split_once(':')?;
    let plain = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
    let number: usize = number.parse().ok().filter(|_| plain)?;
    Some(match kind {
        "pad" => Part::Pad(number),
        _ => Part::Name(inside),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "sess_01902f3c-7b1e-7c3a-8f00-000000000001";
    const OTHER: &str = "sess_01902f3c-7b1e-7c3a-8f00-000000000002";

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[track_caller]
    fn fits(names: &mut Names, pattern: &str, value: &str) -> bool {
        names.check(&json(pattern), &json(value)).is_ok()
    }

    #[test]
    fn each_name_has_one_value() {
        let names = &mut Names::default();
        let quoted = |id: &str| format!("\"{id}\"");
        assert!(!fits(names, r#""<session:0>""#, r#""sess_1""#));
        assert!(fits(names, r#""<session:0>""#, &quoted(ID)));
        assert!(fits(names, r#""<session:0>""#, &quoted(ID)));
        assert!(!fits(names, r#""<session:0>""#, &quoted(OTHER)));
        assert!(!fits(names, r#""<session:1>""#, &quoted(ID)), "two names");
        assert!(fits(
            names,
            r#""x <session:1>!""#,
            &format!("\"x {OTHER}!\"")
        ));
        assert_eq!(
            names.fill("a<session:1>b<pad:3>").unwrap(),
            format!("a{OTHER}bxxx")
        );
        assert!(names.fill("<session:2>").is_err());
        assert_eq!(names.fill("<b> <x:y> < 1").unwrap(), "<b> <x:y> < 1");
        let got = names.abstracted(&json(&format!(r#"["{OTHER}","msg_{:032x}"]"#, 7)));
        assert_eq!(got.to_string(), r#"["<session:1>","<msg:0>"]"#);
    }

    #[test]
    fn names_are_set_by_whole_matches_only() {
        let names = &mut Names::default();
        let value = format!(r#"{{"a":"{ID}","b":1}}"#);
        assert!(!fits(names, r#"{"a":"<session:0>","b":2}"#, &value));
        assert!(names.get("session:0").is_none());
    }

    #[test]
    fn values_are_compared_as_they_are_spelled() {
        let names = &mut Names::default();
        for (pattern, value, expected) in [
            ("1.0", "1.0", true),
            ("1.0", "1", false),
            ("null", "0", false),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"b":2,"a":1}"#, false),
            (r#"{"a":1,"...":"..."}"#, r#"{"b":2,"a":1}"#, true),
            (r#"{"a":1,"a":2}"#, r#"{"a":1}"#, false),
            (r#"{"a":null}"#, "{}", false),
            (r#"["..."]"#, "[[7]]", true),
            (r#"["..."]"#, "[7,8]", false),
            (r#""a<...>c""#, r#""abc""#, true),
            (r#""a<...>c""#, r#""abd""#, false),
            (r#""<n:0>""#, "12", true),
            (r#""<n:0>""#, "13", false),
            (r#""<pad:2>""#, r#""xx""#, true),
            (r#""<pad:2>""#, r#""xxx""#, false),
        ] {
            assert_eq!(fits(names, pattern, value), expected, "{pattern} {value}");
        }
        let error = names.check(&json(r#"{"a":[{"b":1}]}"#), &json(r#"{"a":[{"b":2}]}"#));
        assert_eq!(error.unwrap_err().to_string(), "at .a[0].b: 2 instead of 1");
    }
}
