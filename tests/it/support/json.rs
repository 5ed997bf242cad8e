//! JSON with its numbers as they are spelled and its members as often as they stand there.

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    String(String),
    /// A number, `true`, `false` or `null`; also a string that no text can hold, such as half a
    /// surrogate pair. As it is spelled.
    Literal(String),
}

/// The members of an object, in order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

impl Json {
    /// Reads one JSON text.
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        Self::of_raw(serde_json::from_str::<&RawValue>(text)?.get())
    }

    fn of_raw(text: &str) -> serde_json::Result<Self> {
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text)?;
                let members = members.into_iter();
                let members = members.map(|(name, value)| Ok((name, Self::of_raw(value.get())?)));
                Self::Object(members.collect::<serde_json::Result<_>>()?)
            }
            Some(b'[') => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(text)?;
                let items = items.iter().map(|item| Self::of_raw(item.get()));
                Self::Array(items.collect::<serde_json::Result<_>>()?)
            }
            Some(b'"') => match serde_json::from_str(text) {
                Ok(string) => Self::String(string),
                Err(_) => Self::Literal(text.to_owned()),
            },
            Some(_) => Self::Literal(text.to_owned()),
            None => return Err(serde_json::Error::custom("no value")),
        })
    }

    /// The first member of this name, if this is an object that has one.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                let mut found = members.iter().filter(|(member, _)| member == name);
                found.next().map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value as everybody else has it. Numbers beyond any machine's, and broken strings, are
    /// others of their type: enough to check types.
    pub(crate) fn plain(&self) -> Value {
        match self {
            Self::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone(), value.plain()))
                .collect(),
            Self::Array(items) => items.iter().map(Self::plain).collect(),
            Self::String(text) => Value::String(text.clone()),
            Self::Literal(text) if text.starts_with('"') => Value::String("broken".to_owned()),
            Self::Literal(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(0)),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(members) => {
                f.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{value}", Value::from(name.as_str()))?;
                }
                f.write_str("}")
            }
            Self::Array(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
            Self::String(text) => Value::from(text.as_str()).fmt(f),
            Self::Literal(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_it_read() {
        for text in [
            r#"{"a":1e400,"a":-0.0,"b":[true,null,18446744073709551616],"":{}}"#,
            r#"["\ud83d","x\"\n",[]]"#,
        ] {
            assert_eq!(Json::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "{", "{} {}", r#"{"a":}"#] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
    }
}
