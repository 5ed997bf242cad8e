//! Files that are no session of ours, or none that we may write to.

use rejoin::record::Kind;
use rejoin::store::StoreError;

use super::support::*;

/// The error that both reading and writing give. Neither changes a byte.
fn refused(content: &[u8]) -> StoreError {
    let (disk, store) = store_of(content);
    let refused = store.open_log(&id()).unwrap_err();
    let reading = store.read(&id()).unwrap_err();
    assert_eq!(refused.to_string(), reading.to_string());
    assert_eq!(bytes(&disk), content);
    let exists = store.create(&id(), &header()).unwrap_err();
    assert!(matches!(exists, StoreError::Exists { .. }));
    assert_eq!(disk.files(), [log_path()]);
    assert!(store.trash(&id()).unwrap(), "it can be deleted");
    assert_eq!(trash(&disk).pop().unwrap().1, content);
    refused
}

fn headerless(content: &[u8]) -> String {
    match refused(content) {
        StoreError::Headerless { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

#[test]
fn a_file_without_a_header_is_refused_with_a_reason() {
    assert_eq!(headerless(b""), "it is empty");
    assert_eq!(
        headerless(&sample()[0][..40]),
        "its first record is cut short"
    );
    assert_eq!(
        headerless(b"hello\n"),
        "line 1, byte 0: 6 bytes: not a record"
    );
    assert_eq!(
        headerless(&[0; 512]),
        "line 1, byte 0: 512 bytes: NUL bytes"
    );
    assert_eq!(
        headerless(&line(0, Kind::Prompt, PROMPT)),
        "its first record is a \"prompt\""
    );
    assert_eq!(
        headerless(&sample()[1..].concat()),
        "line 1, byte 0: record 1 follows where record 0 belongs"
    );
    for payload in [r#"{"format":1}"#, r#"{"format":0}"#, "7", "{}"] {
        headerless(&line(0, Kind::Session, payload));
    }
}

#[test]
fn a_header_of_another_session_is_refused() {
    let mut other = header();
    other.session_id = "sess_01902f3c-7b1e-7c3a-8f00-000000000002".to_owned();
    let payload = serde_json::to_string(&other).unwrap();
    match refused(&line(0, Kind::Session, &payload)) {
        StoreError::WrongId { id: named, found } => {
            assert_eq!((named, found), (id(), other.session_id));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn newer_format_is_refused() {
    let mut newer = sample().concat();
    let header = line(0, Kind::Session, r#"{"format":4,"new":true}"#);
    newer.splice(..sample()[0].len(), header);
    for (content, version) in [
        (&newer[..], 4),
        (
            b"{\"sum\":\"x\",\"payload\":{\"format\":70000000000}}\nwhatever",
            70_000_000_000,
        ),
    ] {
        match refused(content) {
            StoreError::Newer { format, .. } => assert_eq!(format, version),
            other => panic!("{other}"),
        }
    }
}
