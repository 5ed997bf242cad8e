//! Tests of config options and modes in the form of version 2.

use super::*;

const MODES: &str = r#"{"currentModeId":"code","availableModes":[{"id":"ask","name":"Ask","description":"d"}, {"id":"code","name":"Code","_meta":{"n":1e400}}],"_meta":{"m":1}}"#;
const AS_OPTION: &str = r#"{"configId":"mode","name":"Mode","category":"mode","type":"select","currentValue":"code","options":[{"value":"ask","name":"Ask","description":"d"},{"value":"code","name":"Code","_meta":{"n":1e400}}],"_meta":{"m":1}}"#;

#[test]
fn ids_get_their_new_names() {
    let options = r#"[ {"id":"m","name":"M","type":"select","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"id"}]},{"value":"b","name":"B"}],"x":1e400} ,{"type":"boolean","name":"N","currentValue":true,"id":"b"}]"#;
    let expected = options
        .replace("\"id\":", "\"configId\":")
        .replace("\"group\":", "\"groupId\":");
    assert_eq!(config_options(Some(options), None), Some(expected));
    assert_eq!(config_options(Some("[]"), None).as_deref(), Some("[]"));
    assert_eq!(config_options(None, None), None);
    assert_eq!(config_options(Some("{}"), None), None);
}

#[test]
fn modes_are_an_option() {
    let expected = format!("[{AS_OPTION}]");
    assert_eq!(config_options(None, Some(MODES)), Some(expected.clone()));
    assert_eq!(config_options(Some("[]"), Some(MODES)), Some(expected));
    let other = r#"[{"id":"b","type":"boolean"} ]"#;
    let expected = format!(r#"[{{"configId":"b","type":"boolean"}} ,{AS_OPTION}]"#);
    assert_eq!(config_options(Some(other), Some(MODES)), Some(expected));
    assert_eq!(mode_config_id(Some(other), Some(MODES)), Some("mode"));
    assert_eq!(mode_config_id(Some(other), None), None);
}

#[test]
fn an_option_for_modes_takes_their_place() {
    let options = r#"[{"id":"m","category":"mode"}]"#;
    let shown = config_options(Some(options), Some(MODES));
    assert_eq!(
        shown.as_deref(),
        Some(r#"[{"configId":"m","category":"mode"}]"#)
    );
    assert_eq!(mode_config_id(Some(options), Some(MODES)), None);
}

#[test]
fn the_id_of_another_option_is_not_taken() {
    let options = r#"[{"id":"mode","category":"model"}]"#;
    assert_eq!(
        mode_config_id(Some(options), Some(MODES)),
        Some("rejoin_mode")
    );
    let shown = config_options(Some(options), Some(MODES)).unwrap();
    assert!(shown.contains(r#""configId":"rejoin_mode""#), "{shown}");
}

#[test]
fn a_mode_that_is_not_listed_is_added() {
    let modes = r#"{"currentModeId":"gone","availableModes":[]}"#;
    let shown = config_options(None, Some(modes)).unwrap();
    assert!(
        shown.contains(r#""options":[{"value":"gone","name":"gone"}]"#),
        "{shown}"
    );
    for none in ["", "{}", "7", "[]", r#"{"currentModeId""#] {
        assert_eq!(config_options(None, Some(none)), None, "{none}");
    }
}
