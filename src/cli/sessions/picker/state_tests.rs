//! Keys in, screens out.

use super::*;

fn id(n: usize) -> SessionId {
    SessionId::parse(&format!("sess_01a1fd7e-723f-7441-b725-49b4fb5b0d{n:02}")).unwrap()
}

fn picker(titles: &[&str], columns: usize, lines: usize) -> Picker {
    let rows = titles.iter().enumerate().map(|(n, title)| PickerRow {
        id: id(n),
        shown: table::TableRow {
            title: (*title).to_owned(),
            id: format!("5b0d{n:02}"),
            agent: "codex".to_owned(),
            when: format!("{n} min ago"),
            folder: "~/cache".to_owned(),
            ..table::TableRow::default()
        },
        kept: (n == 3).then(|| "It is read-only: codex keeps it.".to_owned()),
        words: title.to_lowercase(),
        version: (0, String::new()),
        is_due: n == 2,
        has_state: false,
    });
    let mut picker = Picker::new(columns, lines);
    picker.set_rows(rows.collect());
    picker.set_overview(vec![vec![(STRONG, "So many".to_owned())]]);
    picker
}

const TITLES: [&str; 5] = [
    "Fix the Redis timeout",
    "修复缓存",
    "Write docs",
    "A title that is much too long for the list in any terminal of this width",
    "Fix docs",
];

/// Presses keys: names, or letters.
fn press(picker: &mut Picker, keys: &str) -> Option<PickerAction> {
    let mut last = None;
    for key in keys.split_whitespace() {
        let key = match key {
            "up" => PickerKey::Up,
            "down" => PickerKey::Down,
            "pgup" => PickerKey::PageUp,
            "pgdn" => PickerKey::PageDown,
            "home" => PickerKey::Home,
            "end" => PickerKey::End,
            "enter" => PickerKey::Enter,
            "esc" => PickerKey::Escape,
            "tab" => PickerKey::Tab,
            "back" => PickerKey::Backspace,
            "^c" => PickerKey::Control('c'),
            "^u" => PickerKey::Control('u'),
            letter => PickerKey::Char(letter.chars().next().unwrap()),
        };
        last = picker.key(key);
    }
    last
}

fn screen(picker: &Picker) -> Vec<String> {
    let frame = picker.frame();
    assert_eq!(frame.len(), picker.lines);
    for line in &frame {
        assert!(line.width() <= picker.columns, "{line:?}");
    }
    frame.iter().map(|line| line.text(false)).collect()
}

#[test]
fn keys_ask_for_actions() {
    for (keys, action) in [
        ("q", Some(PickerAction::Quit)),
        ("esc", Some(PickerAction::Quit)),
        ("^c", Some(PickerAction::Quit)),
        ("/ ^c", Some(PickerAction::Quit)),
        ("enter", Some(PickerAction::Show(id(0)))),
        ("down down enter", Some(PickerAction::Show(id(2)))),
        ("j j k enter", Some(PickerAction::Show(id(1)))),
        ("end enter", Some(PickerAction::Show(id(4)))),
        ("pgdn pgdn pgdn enter", Some(PickerAction::Show(id(4)))),
        ("end home up enter", Some(PickerAction::Show(id(0)))),
        ("o", Some(PickerAction::Open(id(0)))),
        ("down c", Some(PickerAction::Copy(id(1)))),
        ("r", Some(PickerAction::Resume(id(0)))),
        ("a", Some(PickerAction::Attach(id(0)))),
        ("e", Some(PickerAction::Export(id(0)))),
        ("i", Some(PickerAction::Import(id(0)))),
        // Only the session that will be deleted, also of those that are searched for.
        ("w i", Some(PickerAction::Import(id(2)))),
        ("w / d o c tab i", Some(PickerAction::Import(id(2)))),
        ("w / r e d i s enter", None),
        ("end w w enter", Some(PickerAction::Show(id(2)))),
        ("w esc down enter", Some(PickerAction::Show(id(3)))),
        ("w esc esc", Some(PickerAction::Quit)),
        (
            "down n enter",
            Some(PickerAction::Rename(id(1), TITLES[1].to_owned())),
        ),
        (
            "n ^u a back b enter",
            Some(PickerAction::Rename(id(0), "b".to_owned())),
        ),
        ("n ^u enter", None),
        ("n x esc", None),
        ("n x esc enter", Some(PickerAction::Show(id(0)))),
        ("n ^c", Some(PickerAction::Quit)),
        // Another tool keeps it.
        ("down down down n x enter", Some(PickerAction::Show(id(3)))),
        ("?", None),
        ("? d y", None),
        ("? q", None),
        ("? q q", Some(PickerAction::Quit)),
        ("d", None),
        ("d y", Some(PickerAction::Delete(id(0)))),
        ("d n", None),
        ("d enter", None),
        ("d q", None),
        ("d d", None),
        // Another tool keeps it.
        ("down down down d y", None),
        // Letters belong to the search, until it is left.
        ("/ d o c", None),
        ("/ d o c enter", Some(PickerAction::Show(id(2)))),
        ("/ d o c tab down o", Some(PickerAction::Open(id(4)))),
        (
            "/ d o c tab down tab d y",
            Some(PickerAction::Delete(id(4))),
        ),
        ("/ f i x down enter", Some(PickerAction::Show(id(4)))),
        ("/ x y z enter", None),
        (
            "/ x y z back back back enter",
            Some(PickerAction::Show(id(0))),
        ),
        ("/ x y z ^u enter", Some(PickerAction::Show(id(0)))),
        ("/ d o c esc enter", Some(PickerAction::Show(id(2)))),
        ("/ d o c tab esc", None),
        ("/ d o c tab esc q", Some(PickerAction::Quit)),
        ("/ x y z tab d", None),
        ("/ x y z tab o", None),
    ] {
        let mut picker = picker(&TITLES, 60, 12);
        assert_eq!(press(&mut picker, keys), action, "{keys}");
        screen(&picker);
    }
}

#[test]
fn a_screen_has_list_preview_and_keys() {
    let mut picker = picker(&TITLES, 60, 12);
    press(&mut picker, "down");
    let wanted = picker.wants_preview().unwrap();
    let expected = PreviewRequest {
        id: id(1),
        query: None,
        columns: 60,
        lines: 4,
        edition: 0,
    };
    assert_eq!(wanted, expected);
    picker.set_preview(
        wanted,
        vec![
            StyledLine::new(PLAIN, "You\tsaid"),
            StyledLine::new(PLAIN, &"x".repeat(80)),
        ],
    );
    assert_eq!(picker.wants_preview(), None);
    let cut = format!("{}…", "x".repeat(59));
    let row = |title: &str, n: usize| format!("{}  5b0d0{n}  codex  {n} min ago", pad(title, 34));
    assert_eq!(
        screen(&picker),
        [
            "So many",
            &row("  Fix the Redis timeout", 0),
            &row("> 修复缓存", 1),
            &row("  Write docs", 2),
            &row("  A title that is much too long f…", 3),
            &row("  Fix docs", 4),
            &"─".repeat(60),
            "You    said",
            &cut,
            "",
            "",
            "Enter show · / search · r go on · i keep · ? keys · q quit",
        ]
    );
    press(&mut picker, "d");
    assert_eq!(screen(&picker)[11], "Move this session to the trash? y/N");
    press(&mut picker, "n");
    picker.say("Said.");
    assert_eq!(screen(&picker)[11], "Said.");
    picker.say(&"a long message ".repeat(5));
    let message = [
        "a long message a long message a long message a long message",
        "a long message",
    ];
    assert_eq!(screen(&picker)[10..], message);
    press(&mut picker, "/ f i x");
    let shown = screen(&picker);
    assert_eq!(shown[0], "Search: fix▏ 2 of 5");
    assert!(shown[1].starts_with("> Fix the Redis") && shown[2].starts_with("  Fix docs"));
    assert_eq!(shown[3], "");
    press(&mut picker, "x");
    assert_eq!(screen(&picker)[1], "No session has these words.");
}

#[test]
fn a_wide_screen_has_the_preview_beside() {
    let mut picker = picker(&TITLES, 120, 6);
    let wanted = picker.wants_preview().unwrap();
    assert_eq!((wanted.columns, wanted.lines), (45, 4));
    picker.set_preview(wanted, vec![StyledLine::new(PLAIN, "You")]);
    let shown = screen(&picker);
    assert!(
        shown[1].starts_with("> Fix the Redis") && shown[1].ends_with(" │ You"),
        "{shown:?}"
    );
    press(&mut picker, "end");
    let shown = screen(&picker);
    assert!(
        shown[4].starts_with("> Fix docs") && shown[1].starts_with("  修复缓存"),
        "{shown:?}"
    );
    assert!(
        !shown.concat().contains("You"),
        "it belongs to another session"
    );
}

#[test]
fn the_agent_is_a_column_in_terminals_of_any_usual_width() {
    for columns in [60, 100, 110, 120, 160] {
        let mut picker = picker(&TITLES, columns, 20);
        let mut rows = picker.rows.clone();
        for row in &mut rows {
            row.shown.agent = "Claude Code".to_owned();
        }
        picker.set_rows(rows);
        let shown = screen(&picker);
        assert!(shown[1].contains("Claude Code"), "{columns}: {shown:?}");
        // A state matters more than it does.
        let state = |id| (id, ("open in zed".to_owned(), Style::new()));
        let wanted = picker.wants_states();
        picker.set_states(wanted.into_iter().map(state).collect());
        let shown = screen(&picker);
        assert!(shown[1].contains("open in zed"), "{columns}: {shown:?}");
    }
}

#[test]
fn a_session_is_chosen_and_nothing_else() {
    let mut picker = picker(&TITLES, 100, 20).choosing(Some("stop"));
    let shown = screen(&picker);
    assert_eq!(shown[19], "Enter stop · / search · Esc leave");
    for keys in ["o", "d", "d y", "n", "r", "a", "e", "i", "c", "?"] {
        assert_eq!(press(&mut picker, keys), None, "{keys}");
        assert_eq!(picker.mode, PickerMode::List, "{keys}");
    }
    press(&mut picker, "/ d o c s");
    assert!(screen(&picker)[19].contains("Enter stop"));
    let action = press(&mut picker, "enter");
    assert_eq!(action, Some(PickerAction::Show(id(2))));
    press(&mut picker, "esc");
    assert_eq!(press(&mut picker, "q"), Some(PickerAction::Quit));
}

#[test]
fn a_preview_is_made_again_when_its_session_has_changed() {
    let mut picker = picker(&TITLES, 100, 20);
    let wanted = picker.wants_preview().unwrap();
    picker.set_preview(wanted.clone(), Vec::new());
    // Another one has changed.
    let mut rows = picker.rows.clone();
    rows[1].version.0 += 1;
    picker.set_rows(rows.clone());
    assert_eq!(picker.wants_preview(), None);
    rows[0].version.0 += 1;
    picker.set_rows(rows);
    let again = picker.wants_preview().unwrap();
    // One that was begun before the change does not count.
    picker.set_preview(wanted, Vec::new());
    assert_eq!(picker.wants_preview(), Some(again.clone()));
    picker.set_preview(again.clone(), Vec::new());
    assert_eq!(picker.wants_preview(), None);
    picker.change(&id(0), |row| row.shown.title = "Another".to_owned());
    assert!(picker.wants_preview().is_some_and(|wanted| wanted != again));
}

#[test]
fn every_size_of_a_screen_is_used() {
    let mut picker = picker(&TITLES, 60, 12);
    for columns in [0, 1, 20, 37, 60, 109, 110, 200] {
        for lines in [0, 1, 4, 5, 9, 24] {
            picker.resize(columns, lines);
            for keys in ["end", "home", "pgdn", "/ f i", "tab", "esc"] {
                press(&mut picker, keys);
                screen(&picker);
                picker.wants_preview();
            }
        }
    }
    let mut none = super::Picker::new(60, 8);
    assert_eq!(screen(&none)[..2], ["Looking for conversations …", ""]);
    none.set_overview(Vec::new());
    assert_eq!(
        press(&mut none, "down pgdn end up d y o c n r a e i enter"),
        None
    );
    assert_eq!(screen(&none)[0], "There are no sessions.");
}

#[test]
fn what_the_index_finds_comes_last() {
    let mut picker = picker(&TITLES, 60, 12);
    assert_eq!(picker.wants_hits(), None);
    press(&mut picker, "/ d o c s");
    assert_eq!(picker.wants_hits(), Some("docs"));
    press(&mut picker, "down");
    picker.set_hits("docs".to_owned(), vec![id(0), id(2), id(77)]);
    assert_eq!(picker.wants_hits(), None);
    let shown = screen(&picker);
    assert!(
        shown[1].contains("Write docs") && shown[3].contains("Redis"),
        "{shown:?}"
    );
    assert!(
        shown[2].starts_with("> Fix docs"),
        "what was chosen stays: {shown:?}"
    );
    press(&mut picker, "x");
    assert_eq!(
        screen(&picker)[1],
        "No session has these words.",
        "they belong to other words"
    );
    assert_eq!(picker.wants_hits(), Some("docsx"));
}

#[test]
fn what_is_deleted_is_gone() {
    let mut picker = picker(&TITLES, 60, 12);
    press(&mut picker, "down");
    picker.remove(&id(1));
    let shown = screen(&picker);
    assert!(
        shown[2].starts_with("> Write docs") && !shown.concat().contains("修复缓存"),
        "{shown:?}"
    );
    press(&mut picker, "end");
    picker.remove(&id(4));
    assert!(screen(&picker)[3].starts_with("> A title"), "{shown:?}");
}

#[test]
fn states_are_looked_up_for_what_is_on_the_screen() {
    let titles: Vec<String> = (0..50).map(|n| format!("Session {n}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut picker = picker(&titles, 60, 12);
    let shown = picker.wants_states();
    assert_eq!(shown, (0..5).map(id).collect::<Vec<_>>());
    let state = |id| (id, ("running".to_owned(), Style::new()));
    picker.set_states(shown.into_iter().map(state).collect());
    assert!(picker.wants_states().is_empty());
    assert!(screen(&picker)[1].contains("running"));
    press(&mut picker, "pgdn down");
    assert_eq!(picker.wants_states(), [id(5)]);
    press(&mut picker, "end");
    assert_eq!(picker.wants_states(), (45..50).map(id).collect::<Vec<_>>());
}

#[test]
fn what_is_chosen_stays_when_the_list_is_read_again() {
    let mut picker = picker(&TITLES, 60, 12);
    let rows = |picker: &Picker| picker.rows.clone();
    let (first, last) = (rows(&picker)[0].clone(), rows(&picker)[4].clone());
    // Nobody has chosen the first one.
    picker.set_rows(vec![last.clone(), first.clone()]);
    assert!(screen(&picker)[1].starts_with("> Fix docs"));
    press(&mut picker, "down");
    picker.set_rows(vec![first, last]);
    assert!(screen(&picker)[1].starts_with("> Fix the Redis"));
    press(&mut picker, "down");
    picker.change(&id(4), |row| row.shown.title = "Another".to_owned());
    assert!(screen(&picker)[2].starts_with("> Another"));
}

#[test]
fn the_head_has_what_there_is_until_a_search_begins() {
    let mut picker = picker(&TITLES, 60, 16);
    let long = "a long text about many things ".repeat(3);
    let overview = vec![
        vec![(STRONG, "5 conversations".to_owned())],
        vec![(WAITING, long)],
    ];
    picker.set_overview(overview);
    let shown = screen(&picker);
    assert_eq!(shown[0], "5 conversations");
    assert_eq!(
        shown[1],
        "a long text about many things a long text about many things"
    );
    assert_eq!(shown[2], "a long text about many things");
    assert!(shown[3].starts_with("> Fix the Redis"), "{shown:?}");
    press(&mut picker, "/");
    let shown = screen(&picker);
    assert_eq!(shown[0], "Search: ▏ 5 of 5");
    assert!(shown[1].starts_with("> Fix the Redis"), "{shown:?}");
}

#[test]
fn a_question_mark_shows_the_keys() {
    for (columns, lines) in [(60, 24), (100, 30), (160, 40), (30, 8)] {
        let mut picker = picker(&TITLES, columns, lines);
        press(&mut picker, "?");
        let shown = screen(&picker);
        assert!(shown[1].starts_with("Enter      show the"), "{shown:?}");
        let has_all = lines > ALL_KEYS.len() + 1;
        assert_eq!(shown.iter().any(|line| line.starts_with("q ")), has_all);
        assert_eq!(shown[lines - 1], "any key: back to the list");
    }
}

#[test]
fn a_title_is_typed_in_the_last_line() {
    let mut picker = picker(&TITLES, 100, 12);
    press(&mut picker, "n ! !");
    let shown = screen(&picker);
    let title = "Title: Fix the Redis timeout!!▏ · Enter rename · Esc leave it";
    assert_eq!(shown[11], title);
    press(&mut picker, "esc");
    assert!(!screen(&picker)[11].contains("Title"));
}

#[test]
fn a_preview_is_made_for_the_words_of_the_search() {
    let mut picker = picker(&TITLES, 100, 20);
    let plain = picker.wants_preview().unwrap();
    assert_eq!(plain.query, None);
    picker.set_preview(plain, Vec::new());
    assert_eq!(picker.wants_preview(), None);
    press(&mut picker, "/ f i x");
    let wanted = picker.wants_preview().unwrap();
    assert_eq!(wanted.query.as_deref(), Some("fix"));
    picker.set_preview(wanted.clone(), Vec::new());
    assert_eq!(picker.wants_preview(), None);
    // The index knows the places only now.
    picker.set_hits("fix".to_owned(), Vec::new());
    assert_eq!(picker.wants_preview(), Some(wanted));
}

#[test]
fn a_question_is_about_its_session_also_if_the_list_changes() {
    let rows = |picker: &Picker, but: usize| {
        let rows = picker.rows.iter().filter(|row| row.id != id(but));
        rows.cloned().rev().collect::<Vec<_>>()
    };
    for keys in ["d", "n"] {
        let mut picker = picker(&TITLES, 100, 20);
        press(&mut picker, keys);
        // The first row is another one now.
        let reversed = rows(&picker, 9);
        picker.set_rows(reversed);
        assert_eq!(picker.chosen(), Some(id(0)));
        let action = press(&mut picker, if keys == "d" { "y" } else { "enter" });
        let expected = match keys {
            "d" => PickerAction::Delete(id(0)),
            _ => PickerAction::Rename(id(0), TITLES[0].to_owned()),
        };
        assert_eq!(action, Some(expected));
        // The session is gone, and so is the question.
        press(&mut picker, keys);
        let without = rows(&picker, 0);
        picker.set_rows(without);
        assert_eq!(picker.mode, PickerMode::List);
        assert_eq!(press(&mut picker, "y"), None);
    }
}
