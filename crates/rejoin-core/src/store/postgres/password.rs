//! Passwords from a file such as `.pgpass`, or from a command.

use std::fmt;
use std::io;
use std::process::{Command, Stdio};

use tokio::task::spawn_blocking;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::sys::descriptors;

/// A command that prints the password. It runs for each connection, since what it prints may be valid
/// for a short time only.
#[derive(Clone)]
pub(super) struct PasswordCommand(pub(super) String);

impl PasswordCommand {
    /// Runs the command and returns its output without the line break.
    pub(super) async fn run(&self) -> Result<String, String> {
        let mut command = if cfg!(windows) {
            let mut command = Command::new("cmd");
            command.arg("/C");
            command
        } else {
            let mut command = Command::new("sh");
            command.arg("-c");
            command
        };
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
            .arg(&self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let cannot = |error| format!("cannot run the password command: {error}");
        let started = descriptors::spawn(&mut command).map_err(cannot)?;
        let group = CommandGroup(Some(started.id()));
        // Its thread ends with the command.
        let output = spawn_blocking(move || started.wait_with_output()).await;
        group.ended();
        let output = output.map_err(io::Error::from).flatten().map_err(cannot)?;
        if !output.status.success() {
            let status = output.status;
            return Err(format!("the password command failed: {status}"));
        }
        let text = String::from_utf8(output.stdout);
        let text = text.map_err(|_| "the password command printed no text".to_owned())?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// The processes that the command has started. Dropping it kills them.
struct CommandGroup(Option<u32>);

impl CommandGroup {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.0
            && let Some(id) = i32::try_from(id)
                .ok()
                .and_then(rustix::process::Pid::from_raw)
            && let Err(error) =
                rustix::process::kill_process_group(id, rustix::process::Signal::KILL)
        {
            tracing::debug!(%error, "cannot end the password command");
        }
    }
}

impl fmt::Debug for PasswordCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordCommand")
    }
}

/// The password in a file of passwords, or else in the usual one: lines of
/// `host:port:database:user:password`.
pub(super) fn in_file(config: &Config, named: Option<String>) -> Option<String> {
    let file = named.map(std::path::PathBuf::from);
    let file = file.or_else(|| Some(std::env::home_dir()?.join(".pgpass")))?;
    let text = std::fs::read_to_string(file).ok()?;
    let host = match config.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let wanted = [
        &host,
        &port.to_string(),
        config.get_dbname().unwrap_or(user),
        user,
    ];
    text.lines().find_map(|line| password_of(line, wanted))
}

/// The password of a line, if the line is about this host, port, database and user.
fn password_of(line: &str, wanted: [&str; 4]) -> Option<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(characters.next()),
            c => fields.last_mut()?.push(c),
        }
    }
    let (password, fields) = fields.split_last()?;
    let fits = |(field, wanted): (&String, &str)| field == "*" || field == wanted;
    let is_it = fields.len() == 4 && fields.iter().zip(wanted).all(fits);
    is_it.then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_by_all_four() {
        let wanted = ["h", "5432", "d", "u"];
        for (line, found) in [
            ("h:5432:d:u:se:cret", Some("se:cret")),
            ("*:*:*:*:s\\:x\\\\", Some("s:x\\")),
            ("h:5433:d:u:no", None),
            ("# comment", None),
        ] {
            assert_eq!(password_of(line, wanted).as_deref(), found, "{line}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_prints_the_password() {
        let run = async |command: &str| PasswordCommand(command.to_owned()).run().await;
        assert_eq!(run("echo secret").await.as_deref(), Ok("secret"));
        let failed = run("echo secret; exit 3").await.unwrap_err();
        assert!(failed.contains("exit status: 3"), "{failed}");
    }
}
