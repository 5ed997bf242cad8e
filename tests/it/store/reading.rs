//! Reading: places in a file, long lines, files that grow.

use rejoin::record::Kind;
use rejoin::store::{DamageReason, Torn};

use super::support::*;

#[test]
fn reading_continues_from_any_record() {
    let (_disk, store) = store_of(&sample().concat());
    let records = read(&store);
    let mut reader = store.read(&id()).unwrap();
    let mut offset = 0;
    for (i, line) in sample().iter().enumerate() {
        reader.seek(offset);
        assert_eq!(rest(&mut reader), records[i..]);
        offset += line.len() as u64;
    }
    reader.seek(offset);
    assert_eq!(rest(&mut reader), []);
    assert_eq!(reader.damage(), []);
    assert_eq!(reader.header(), &header());
}

#[test]
fn damage_after_a_seek_has_its_line_number() {
    let mut lines = sample();
    lines[4][30] ^= 1;
    let (_disk, store) = store_of(&lines.concat());
    let mut reader = store.read(&id()).unwrap();
    let before = |n: usize| lines[..n].concat().len() as u64;
    reader.seek(before(2));
    assert_eq!(rest(&mut reader).len(), 6);
    let report = &reader.damage()[0];
    assert_eq!((report.line, report.offset), (5, before(4)));
}

#[test]
fn stops_at_a_limit() {
    let (_disk, store) = store_of(&sample().concat());
    let records = read(&store);
    let mut end = 0;
    for (i, line) in sample().iter().enumerate() {
        end += line.len() as u64;
        let mut reader = store.read(&id()).unwrap();
        reader.limit(end);
        assert_eq!(rest(&mut reader), records[..=i]);
        assert_eq!(reader.torn(), None);
        let scan = reader.scan().unwrap();
        assert_eq!((scan.records, scan.end), (i as u64 + 1, end));
        // The line break of the last record may be left out.
        reader.limit(end - 1);
        assert_eq!(reader.scan().unwrap().records, i as u64 + 1);
    }
}

#[test]
fn a_growing_file_can_be_followed() {
    let lines = sample();
    let whole = lines.concat();
    let start = lines[0].len();
    let (disk, store) = store_of(&whole[..start]);
    let mut reader = store.read(&id()).unwrap();
    let mut seen = rest(&mut reader);
    let mut writer = {
        use rejoin::sys::Disk;
        disk.open_append(&log_path()).unwrap()
    };
    for byte in whole[start..].chunks(7) {
        writer.append(byte).unwrap();
        seen.extend(rest(&mut reader));
    }
    assert_eq!(seen, sample_records());
    assert_eq!(reader.damage(), []);
    assert_eq!(reader.torn(), None);
}

#[test]
fn lines_of_any_length_come_back_whole() {
    let mut content = sample()[0].clone();
    // Around the sizes of the blocks that are read at once.
    let sizes = [
        1, 16_000, 16_384, 262_000, 262_144, 3_000_000, 5, 262_145, 20,
    ];
    for (size, seq) in sizes.iter().zip(1..) {
        content.extend(line(
            seq,
            Kind::Unknown,
            &format!("\"{}\"", "x".repeat(*size)),
        ));
    }
    let (_disk, store) = store_of(&content);
    let mut reader = store.read(&id()).unwrap();
    let found: Vec<_> = rest(&mut reader)[1..]
        .iter()
        .map(|record| record.payload.len() - 2)
        .collect();
    assert_eq!(found, sizes);
    assert_eq!(reader.damage(), []);
}

#[test]
fn partial_record_of_a_writer_is_not_damage() {
    let whole = sample().concat();
    let half = line(9, Kind::Update, CHUNK);
    for len in 1..half.len() - 1 {
        let (_disk, store) = store_of(&[&whole, &half[..len]].concat());
        let mut reader = store.read(&id()).unwrap();
        assert_eq!(rest(&mut reader).len(), 9);
        assert_eq!(reader.damage(), [], "{len}");
        let torn = Torn {
            offset: whole.len() as u64,
            len: len as u64,
        };
        assert_eq!(reader.torn(), Some(torn));
    }
}

#[test]
fn scan_returns_title_and_settings() {
    let lines = sample();
    let mut content = lines.concat();
    let place = r#"{"cwd":"/new","additionalDirectories":["/more"],"mcpServers":[],"later":1}"#;
    content.extend(line(9, Kind::Reopen, place));
    let (_disk, store) = store_of(&content);
    let mut reader = store.read(&id()).unwrap();
    reader.next().unwrap();
    let scan = reader.scan().unwrap();
    assert_eq!(scan.header, header());
    assert_eq!(scan.workspace.cwd, "/new");
    assert_eq!(scan.workspace.additional_directories, ["/more"]);
    assert_eq!((scan.records, scan.next_seq), (10, 10));
    assert_eq!(scan.end, content.len() as u64);
    let offset = |n: usize| lines[..n].concat().len() as u64;
    assert_eq!(scan.prompts, [offset(1), offset(6)]);
    assert!(scan.turn_open());
    assert!(!scan.unterminated);
    assert_eq!(scan.damage, []);
    assert_eq!(scan.first_prompt.as_deref(), Some(PROMPT));
    assert_eq!(scan.updated_at.as_deref(), Some("1970-01-01T00:00:00.000Z"));
    assert_eq!(
        rest(&mut reader).len(),
        10,
        "the scan goes back to the start"
    );
}

#[test]
fn scan_of_huge_prompt_and_unreadable_workspace() {
    let mut content = sample()[0].clone();
    let huge = format!(r#"{{"prompt":[],"x":"{}"}}"#, "x".repeat(64 * 1024));
    content.extend(line(1, Kind::Prompt, &huge));
    content.extend(line(2, Kind::End, END));
    content.extend(line(3, Kind::Prompt, PROMPT));
    let at = content.len() as u64;
    content.extend(line(4, Kind::Reopen, r#"{"cwd":7}"#));
    let (_disk, store) = store_of(&content);
    let scan = store.read(&id()).unwrap().scan().unwrap();
    assert_eq!(scan.first_prompt, None);
    assert_eq!(scan.prompts.len(), 2);
    assert_eq!(scan.workspace, header().workspace);
    assert_eq!(scan.damage.len(), 1);
    let report = &scan.damage[0];
    assert_eq!(
        (report.line, report.offset, report.reason),
        (5, at, DamageReason::Payload)
    );
}
