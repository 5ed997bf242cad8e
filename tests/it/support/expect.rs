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
            let members = Json::Object(members);
            let found = without_repeated(&members, Json::Object(found));
            names.check(&members, &found)
        }
        (Pattern::Json(pattern), json) => names.check(pattern, json),
        (Pattern::Raw(pattern), _) => {
            let line = String::from_utf8_lossy(line);
            names.check_text(pattern, line.trim_end_matches('\n'))
        }
    };
    wrong.map_err(|wrong| wrong.to_string())
}

/// A message without what the data of every error has, unless it is asked for: the name of the
/// error, and its message once more.
fn without_repeated(pattern: &Json, message: Json) -> Json {
    let asked = pattern.get("error").and_then(|error| error.get("data"));
    if !matches!(asked, None | Some(Json::Object(_))) {
        return message;
    }
    let is_kept = |name: &str| asked.is_some_and(|data| data.get(name).is_some());
    let Json::Object(mut members) = message else {
        return message;
    };
    for (_, error) in members.iter_mut().filter(|(name, _)| name == "error") {
        let Json::Object(error) = error else { continue };
        error.retain_mut(|(name, data)| {
            let Json::Object(data) = data else {
                return true;
            };
            if name == "data" {
                data.retain(|(name, _)| {
                    !matches!(name.as_str(), "error" | "code" | "details") || is_kept(name)
                });
            }
            name != "data" || asked.is_some() || !data.is_empty()
        });
    }
    Json::Object(members)
}

/// What the reader of a failure needs.
pub(super) fn differs(pattern: &Pattern, line: &[u8], wrong: &str) -> String {
    let expected = match pattern {
        Pattern::Json(json) => json.to_string(),
        Pattern::Raw(text) => text.clone(),
    };
    let line = String::from_utf8_lossy(line);
    format!("{wrong}\n  expected: {expected}\n       got: {line}")
}
