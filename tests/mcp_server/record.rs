//! Notes what happens to the server, a line of JSON for each.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

/// Where it is noted, if anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record(Option<PathBuf>);

impl Record {
    pub(crate) fn to(file: PathBuf) -> Self {
        Self(Some(file))
    }

    /// Notes one thing; the value is JSON.
    pub(crate) fn note(&self, key: &str, value: &str) {
        self.line(&format!("{{\"{key}\":{value}}}"));
    }

    /// Notes a line.
    pub(crate) fn line(&self, line: &str) {
        let Some(file) = &self.0 else { return };
        let line = format!("{line}\n");
        let file = OpenOptions::new().create(true).append(true).open(file);
        // One write each, so that lines of several processes stay whole.
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the record can be written");
    }
}
