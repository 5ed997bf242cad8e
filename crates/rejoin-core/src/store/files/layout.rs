//! Every file name in the store.

use std::path::{Path, PathBuf};

use crate::sys::{SessionId, Timestamp};

const LOG: &str = ".jsonl";
const TORN: &str = "torn-";

/// The paths in a store.
#[derive(Debug)]
pub(super) struct StoreLayout {
    pub(super) root: PathBuf,
    /// The logs of sessions.
    pub(super) sessions: PathBuf,
    /// The logs of deleted sessions, and torn ends that recovery removed.
    pub(super) trash: PathBuf,
    /// A file for each session that is open for writing, naming the lock holder.
    pub(super) open: PathBuf,
}

/// The meaning of a file name in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InTrash {
    /// `<id>.<ms>.jsonl`: a session that was deleted then.
    Session(SessionId, Timestamp),
    /// `<id>.torn-<offset>-<ms>`: a torn end that was removed then; `-<n>` distinguishes several.
    Torn(SessionId, Timestamp),
}

impl StoreLayout {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            sessions: root.join("sessions"),
            trash: root.join("trash"),
            open: root.join("open"),
        }
    }

    pub(super) fn log(&self, id: &SessionId) -> PathBuf {
        self.sessions.join(format!("{id}{LOG}"))
    }

    pub(super) fn hint(&self, id: &SessionId) -> PathBuf {
        self.open.join(id.as_str())
    }

    pub(super) fn trashed(&self, id: &SessionId, at: Timestamp) -> PathBuf {
        self.trash.join(format!("{id}.{}{LOG}", at.as_millis()))
    }

    /// The path for a torn end; each `n` above 1 gives another name.
    pub(super) fn torn(&self, id: &SessionId, offset: u64, at: Timestamp, n: u32) -> PathBuf {
        let name = format!("{id}.{TORN}{offset}-{}", at.as_millis());
        self.trash.join(match n {
            ..=1 => name,
            n => format!("{name}-{n}"),
        })
    }

    /// The session whose log has this name.
    pub(super) fn session_of(name: &str) -> Option<SessionId> {
        SessionId::parse(name.strip_suffix(LOG)?)
    }

    /// The meaning of a name in the trash; none if it is not ours.
    pub(super) fn in_trash(name: &str) -> Option<InTrash> {
        let (id, rest) = name.split_once('.')?;
        let id = SessionId::parse(id)?;
        if let Some(rest) = rest.strip_prefix(TORN) {
            let mut parts = rest.split('-');
            number(parts.next()?)?;
            let at = time(parts.next()?)?;
            return Some(InTrash::Torn(id, at));
        }
        Some(InTrash::Session(id, time(rest.strip_suffix(LOG)?)?))
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

fn time(text: &str) -> Option<Timestamp> {
    let millis = i64::try_from(number(text)?).ok()?;
    let at = Timestamp::from_millis(millis);
    (at.as_millis() == millis).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_strays_do_not() {
        let layout = StoreLayout::new(Path::new("/s"));
        let id = SessionId::parse("sess_01902f3c-7b1e-7c3a-8f00-000000000001").unwrap();
        let at = Timestamp::from_millis(1_795_250_000_123);
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            StoreLayout::session_of(&name(layout.log(&id))),
            Some(id.clone())
        );
        assert_eq!(
            StoreLayout::in_trash(&name(layout.trashed(&id, at))),
            Some(InTrash::Session(id.clone(), at))
        );
        for n in [1, 2] {
            let name = name(layout.torn(&id, 512, at, n));
            let torn = InTrash::Torn(id.clone(), at);
            assert_eq!(StoreLayout::in_trash(&name), Some(torn), "{name}");
        }
        for stray in [
            ".DS_Store",
            "x.jsonl",
            &format!("{id}"),
            &format!("{id}.jsonl~"),
            &format!("{id}.1.jsonl.swp"),
            &format!("{id}.-1.jsonl"),
            &format!("{id}.torn-x-1"),
        ] {
            assert_eq!(StoreLayout::session_of(stray), None, "{stray}");
            assert_eq!(StoreLayout::in_trash(stray), None, "{stray}");
        }
    }
}
