//! Holds a line against what a fixture says must come.

use super::fixture::Pattern;
use super::json::Json;
use super::pattern::Names;

/// Says what is wrong with a line, if anything is.
pub(super) fn fit(
    names: &mut Names,
    pattern: &Pattern,
    line: &[u8],
    json: &Json,
) -> Result<(), String> {
    let wrong = match (pattern, json) {
        (Pattern::Json(Json::Object(members)), Json::Object(found)) => {
            // Every message has it, and it was looked at already.
            let other = |(name, _): &&(String, Json)| name != "jsonrpc";
            let members = members.iter().filter(other).cloned().collect();
            let found = found.iter().filter(other).cloned().collect();
            names.check(&Json::Object(members), &Json::Object(found))
        }
        (Pattern::Json(pattern), json) => names.check(pattern, json),
        (Pattern::Raw(pattern), _) => {
            let line = String::from_utf8_lossy(line);
            names.check_text(pattern, line.trim_end_matches('\n'))
        }
    };
    wrong.map_err(|wrong| wrong.to_string())
}

/// What to tell whoever reads the failure.
pub(super) fn differs(pattern: &Pattern, line: &[u8], wrong: &str) -> String {
    let expected = match pattern {
        Pattern::Json(json) => json.to_string(),
        Pattern::Raw(text) => text.clone(),
    };
    let line = String::from_utf8_lossy(line);
    format!("{wrong}\n  expected: {expected}\n       got: {line}")
}
