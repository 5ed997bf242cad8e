//! Tool calls as text: all updates of a call applied to it, each field verbatim.

use super::entry::CallEntry;

/// The tool calls of a turn, in the order in which they began.
#[derive(Debug, Default)]
pub struct TurnCalls(Vec<CallFields>);

#[derive(Debug)]
struct CallFields {
    /// Its id, unescaped.
    id: Vec<u8>,
    /// Names of fields, still escaped, and values.
    fields: Vec<(String, String)>,
}

impl TurnCalls {
    /// Applies an update: a field that is given replaces the one before. `budget` is how many more
    /// bytes are allowed, and is reduced. Returns false if a field was too long.
    pub fn apply(&mut self, update: &CallEntry<'_>, budget: &mut usize) -> bool {
        let Some(id) = update.id() else {
            return true;
        };
        let at = self.0.iter().position(|call| call.id == *id);
        let at = at.unwrap_or_else(|| {
            let fields = Vec::new();
            self.0.push(CallFields {
                id: id.into_owned(),
                fields,
            });
            self.0.len() - 1
        });
        let Some(call) = self.0.get_mut(at) else {
            return true;
        };
        let mut whole = true;
        for (name, value) in update.members() {
            whole &= call.set(name, value, budget);
        }
        whole
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the JSON array to a text.
    pub(super) fn write(&self, text: &mut String) {
        for (number, call) in self.0.iter().enumerate() {
            text.push(if number == 0 { '[' } else { ',' });
            call.write(text);
        }
        text.push_str(if self.0.is_empty() { "[]" } else { "]" });
    }

    /// The JSON object of the first one.
    pub fn first(&self) -> Option<String> {
        let mut text = String::new();
        self.0.first()?.write(&mut text);
        Some(text)
    }
}

impl CallFields {
    fn write(&self, text: &mut String) {
        for (number, (name, value)) in self.fields.iter().enumerate() {
            let before = if number == 0 { "{\"" } else { ",\"" };
            text.extend([before, name, "\":", value]);
        }
        text.push_str(if self.fields.is_empty() { "{}" } else { "}" });
    }

    fn set(&mut self, name: &str, value: &str, budget: &mut usize) -> bool {
        let known = self.fields.iter_mut().find(|(known, _)| known == name);
        let before = known.as_ref().map_or(0, |(_, value)| value.len());
        let Some(left) = (*budget + before).checked_sub(value.len()) else {
            return false;
        };
        *budget = left;
        match known {
            Some((_, known)) => value.clone_into(known),
            None => self.fields.push((name.to_owned(), value.to_owned())),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(calls: &TurnCalls) -> String {
        let mut text = String::new();
        calls.write(&mut text);
        text
    }

    #[test]
    fn updates_are_applied_to_their_call() {
        let mut calls = TurnCalls::default();
        let mut budget = 1000;
        for update in [
            r#"{"sessionUpdate":"tool_call","toolCallId":"a","title":"A","rawInput":{"n":1.50,"n":-0},"content":[1]}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"failed"}"#,
            r#"{"sessionUpdate":"tool_call_update","status":"completed","toolCallId":"a","content":[2,3],"title":null,"rawInput":null}"#,
            r#"{"sessionUpdate":"tool_call_update"}"#,
        ] {
            assert!(calls.apply(&CallEntry::of(update), &mut budget));
        }
        assert_eq!(
            array(&calls),
            r#"[{"toolCallId":"a","title":"A","rawInput":null,"content":[2,3],"status":"completed"},{"toolCallId":"b","status":"failed"}]"#
        );
    }

    #[test]
    fn a_field_beyond_the_budget_stays_as_it_was() {
        let mut calls = TurnCalls::default();
        let mut budget = 20;
        assert!(calls.apply(
            &CallEntry::of(r#"{"toolCallId":"a","x":"12345678"}"#),
            &mut budget
        ));
        assert_eq!(budget, 7);
        assert!(!calls.apply(
            &CallEntry::of(r#"{"toolCallId":"a","x":"12345678901234567890"}"#),
            &mut budget
        ));
        assert!(calls.apply(&CallEntry::of(r#"{"toolCallId":"a","x":1}"#), &mut budget));
        assert_eq!(budget, 16);
        assert_eq!(array(&calls), r#"[{"toolCallId":"a","x":1}]"#);
    }
}
