//! Writes into a transcript what came in the place of what was expected, for a person to review.

use std::collections::BTreeMap;
use std::path::Path;

use super::fixture::{Action, Pattern, Step};
use super::json::Json;
use super::pattern::Names;

/// Lines of a transcript that are to be others.
#[derive(Debug, Default)]
pub(crate) struct Rewrite(BTreeMap<usize, Vec<String>>);

impl Rewrite {
    /// In the place of a step, these messages came.
    pub(crate) fn line(&mut self, step: &Step, names: &mut Names, came: &[(Vec<u8>, Json)]) {
        let connection = match step.connection {
            1 => String::new(),
            number => format!("@{number} "),
        };
        let raw = matches!(
            &step.action,
            Action::Expect {
                pattern: Pattern::Raw(_),
                ..
            }
        );
        let came = came.iter().map(|(line, json)| {
            if raw {
                let line = String::from_utf8_lossy(line);
                let line = names.abstracted_text(line.trim_end_matches('\n'));
                return format!("{connection}<-raw {line}");
            }
            let json = without_version(names.abstracted(json));
            format!("{connection}<- {json}")
        });
        self.0.insert(step.line, came.collect());
    }

    /// Changes the file.
    #[expect(clippy::disallowed_methods, reason = "fixtures are no store")]
    pub(crate) fn apply(&self, path: &Path) {
        if self.0.is_empty() {
            return;
        }
        let text = std::fs::read_to_string(path).expect("it was read before");
        let mut out = String::new();
        for (at, line) in text.lines().enumerate() {
            let kept = [line.to_owned()];
            let lines = self.0.get(&(at + 1)).map_or(&kept[..], Vec::as_slice);
            for line in lines {
                out.extend([line, "\n"]);
            }
        }
        std::fs::write(path, out).expect("fixtures can be written");
    }
}

fn without_version(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| name != "jsonrpc");
            Json::Object(members.collect())
        }
        other => other,
    }
}
