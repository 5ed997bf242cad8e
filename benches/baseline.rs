//! The simple programs that ours is compared with: in C where there is a compiler, else this very
//! program in another role.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;

use crate::Result;

/// A program in two languages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    /// The argument that gives this program the role.
    role: &'static str,
    c: &'static str,
}

/// Reads a line and writes the second argument as a line.
pub(crate) const ANSWER: Baseline = Baseline {
    role: "--play-answer",
    c: include_str!("answer.c"),
};

/// Writes each line of the file in the second argument to the file in the third, then to stdout.
pub(crate) const LOG_FIRST: Baseline = Baseline {
    role: "--play-log-first",
    c: include_str!("log_first.c"),
};

impl Baseline {
    /// A command that runs it, and the language it is in.
    pub(crate) fn command(self, folder: &Path) -> Result<(Command, &'static str)> {
        let source = folder.join(format!("{}.c", self.role));
        let program = folder.join(self.role);
        fs::write(&source, self.c)?;
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").arg("-o").arg(&program).arg(&source);
        if compiler.status().is_ok_and(|status| status.success()) {
            let mut command = Command::new(program);
            command.arg(self.role);
            return Ok((command, "C"));
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(self.role);
        Ok((command, "Rust"))
    }
}

/// Plays a role, if this process was started for one.
pub(crate) fn play(role: &str) -> bool {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let played = match (role, arguments.as_slice()) {
        (role, [line]) if role == ANSWER.role => answer(line),
        (role, [from, log]) if role == LOG_FIRST.role => log_first(from, log),
        _ => return false,
    };
    // The process that started it sees that nothing came.
    played.ok();
    true
}

fn answer(line: &str) -> std::io::Result<()> {
    let mut asked = String::new();
    std::io::stdin().lock().read_line(&mut asked)?;
    println!("{line}");
    Ok(())
}

fn log_first(from: &str, log: &str) -> std::io::Result<()> {
    let text = fs::read(from)?;
    let mut log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut output = std::io::stdout().lock();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        log.write_all(line)?;
        output.write_all(line)?;
        output.flush()?;
    }
    Ok(())
}
