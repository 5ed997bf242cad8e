//! The outcome of a command that has ended.

use serde_json::json;

use crate::engine::captured::Exit;

use super::shown::Worked;

/// The outcome of a command: only exit code 0 is a success.
pub(super) fn ended(exit: &Exit) -> Worked {
    let how = match exit {
        Exit {
            signal: Some(signal),
            ..
        } => format!("It was ended by signal {signal}."),
        Exit {
            code: Some(code), ..
        } => format!("It exited with code {code}."),
        _ => "How it ended is not known.".to_owned(),
    };
    Worked {
        failed: exit.code != Some(0) || exit.signal.is_some(),
        raw_output: Some(json!({ "exitCode": exit.code, "signal": exit.signal })),
        said: how,
        ..Worked::default()
    }
}
