//! Writes down what the agent received, for tests to look at.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// A file with one line for each message that came, and for what happened to the process.
#[derive(Debug)]
pub(crate) struct Record(Option<Mutex<File>>);

impl Record {
    /// Adds to a file, if there is to be one.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let file = path.map(|path| {
            let file = File::options().create(true).append(true).open(path);
            Mutex::new(file.expect("the record can be opened"))
        });
        Self(file)
    }

    /// Adds a line as it came.
    pub(crate) fn line(&self, line: &[u8]) {
        if let Some(file) = &self.0 {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = [line, b"\n"].concat();
            let mut file = file.lock().expect("no thread panics with it");
            file.write_all(&line).expect("the record can be written");
        }
    }

    /// Adds a line of our own: one member with a JSON value.
    pub(crate) fn note(&self, what: &str, value: &str) {
        self.line(format!(r#"{{"{what}":{value}}}"#).as_bytes());
    }
}
