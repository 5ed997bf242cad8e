//! Changes the members of an object: names and values stay as they are, and in their order.

use std::borrow::Cow;

use super::object::{Object, object};
use super::path::text_members;

/// The members of an object that is put together or changed. Their values are JSON text.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, String)>);

impl Members {
    /// The members of an object that is given as JSON text. None for anything else.
    pub fn of(object: &str) -> Self {
        let members = text_members(object).into_iter();
        Self(
            members
                .map(|(name, value)| (name, value.to_owned()))
                .collect(),
        )
    }

    /// Sets a member to a JSON value: in its place, or behind the others if it is absent.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        let place = self.0.iter().position(|(own, _)| own == name);
        // Of members of the same name, the last one would count.
        self.remove(name);
        let member = (name.to_owned(), value.to_string());
        self.0.insert(place.unwrap_or(self.0.len()), member);
    }

    /// Sets a member that is absent.
    pub fn set_default(&mut self, name: &str, value: impl ToString) {
        if !self.0.iter().any(|(own, _)| own == name) {
            self.set(name, value);
        }
    }

    /// Sets all members of an object, given as JSON text.
    pub fn set_all(&mut self, object: &str) {
        for (name, value) in text_members(object) {
            self.set(&name, value);
        }
    }

    /// Removes a member.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(own, _)| own != name);
    }

    /// Takes the members out whose names are not among these.
    #[must_use]
    pub fn take_others(&mut self, names: &[&str]) -> Self {
        let others = self.0.extract_if(.., |(name, _)| !names.contains(&&**name));
        Self(others.collect())
    }

    /// The members with one set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.set(name, value);
        self
    }

    /// The members without those of these names.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, _)| !names.contains(&&**name));
        self
    }

    /// The members of these names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, _)| names.contains(&&**name));
        self
    }

    /// The members with another name for one.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        for (name, _) in self.0.iter_mut().filter(|(name, _)| name == from) {
            to.clone_into(name);
        }
        self
    }

    /// The members, with those of another object in place of those of the same names, behind the
    /// rest.
    #[must_use]
    pub fn overlaid(mut self, other: Self) -> Self {
        self.0
            .retain(|(name, _)| !other.0.iter().any(|(own, _)| own == name));
        self.0.extend(other.0);
        self
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as JSON text.
    pub fn text(&self) -> String {
        object(self.0.iter().map(|(name, value)| (name.clone(), &**value)))
    }
}

/// An object without some of its members, with others, in place of those of the same names, behind
/// the rest.
pub fn with_members(object: &str, without: &[&str], with: &[(&str, &str)]) -> String {
    let with = with.iter();
    let with = with.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let kept = Members::of(object).without(without);
    kept.overlaid(Members(with.collect())).text()
}

/// An object with its members changed: `change` gets the name and the value of each, and returns
/// the new value, or none to leave it out.
pub fn remade<'a>(
    object: &'a str,
    mut change: impl FnMut(&str, &'a str) -> Option<Cow<'a, str>>,
) -> String {
    let members = text_members(object).into_iter();
    let members = members.filter_map(|(name, value)| Some((change(&name, value)?, name)));
    let add = |object: Object, (value, name): (Cow<'_, str>, String)| object.raw(&name, &value);
    members.fold(Object::new(), add).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{ "a" : 1e400, "b":[1, 2],"a":2,"c":{"a":1}}"#;

    #[test]
    fn members_are_replaced_and_the_rest_is_kept() {
        assert_eq!(
            with_members(OBJECT, &["c"], &[("b", "0"), ("d", "{}")]),
            r#"{"a":1e400,"a":2,"b":0,"d":{}}"#
        );
        assert_eq!(with_members("[]", &[], &[]), "{}");
    }

    #[test]
    fn a_member_is_set_in_its_place() {
        let members = || Members::of(OBJECT);
        let b = r#""b":[1, 2]"#;
        for (changed, text) in [
            (
                members().with("a", 3),
                format!(r#"{{"a":3,{b},"c":{{"a":1}}}}"#),
            ),
            (
                members().only(&["b"]).with("d", "{}"),
                format!(r#"{{{b},"d":{{}}}}"#),
            ),
            (
                members().without(&["a"]).renamed("c", "e"),
                format!(r#"{{{b},"e":{{"a":1}}}}"#),
            ),
            (
                members().overlaid(Members::of(r#"{"a":7}"#)),
                format!(r#"{{{b},"c":{{"a":1}},"a":7}}"#),
            ),
        ] {
            assert_eq!(changed.text(), text);
        }
        let mut members = members();
        members.set_default("a", 5);
        members.set_all(r#"{"b":0,"d":1.0}"#);
        assert_eq!(
            members.take_others(&["b", "d"]).text(),
            r#"{"a":1e400,"a":2,"c":{"a":1}}"#
        );
        assert_eq!(members.text(), r#"{"b":0,"d":1.0}"#);
    }

    #[test]
    fn values_are_changed_or_left_out() {
        let shown = remade(OBJECT, |name, value| match name {
            "a" => None,
            "b" => Some("0".into()),
            _ => Some(value.into()),
        });
        assert_eq!(shown, r#"{"b":0,"c":{"a":1}}"#);
    }
}
