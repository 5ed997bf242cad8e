//! The process's own stdin and stdout as the ends of a connection.
//!
//! While serving, nothing else touches them.
#![expect(
    clippy::disallowed_methods,
    reason = "this is where stdin and stdout are owned"
)]

use std::fs::File;
use std::io::{self, Read, Write};

/// Standard input, unbuffered by the standard library.
pub fn input() -> io::Result<impl Read + Send + 'static> {
    #[cfg(unix)]
    let input = File::from(std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?);
    #[cfg(windows)]
    let input =
        File::from(std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned()?);
    Ok(input)
}

/// Standard output, without the standard library's flush at each line.
pub fn output() -> io::Result<File> {
    #[cfg(unix)]
    let output = File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    #[cfg(windows)]
    let output =
        File::from(std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned()?);
    Ok(output)
}

/// Writes the last that this process has to say on standard output, which leads nowhere from then on.
pub fn last_output(text: &[u8]) -> io::Result<()> {
    output()?.write_all(text)?;
    #[cfg(unix)]
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}

/// Standard input for a runtime.
pub fn async_input() -> impl tokio::io::AsyncRead + Send + Unpin + 'static {
    tokio::io::stdin()
}

/// Standard output for a runtime.
pub fn async_output() -> impl tokio::io::AsyncWrite + Send + Unpin + 'static {
    tokio::io::stdout()
}

/// The pipes in place of stdout and stderr, so that they can be read, for a process that was
/// started with such pipes.
#[cfg(unix)]
pub fn given() -> impl Iterator<Item = impl Read + Send + 'static> {
    use std::os::fd::AsFd;
    let pipes = [
        io::stdout().as_fd().try_clone_to_owned(),
        io::stderr().as_fd().try_clone_to_owned(),
    ];
    pipes.into_iter().flatten().map(File::from)
}

/// Other systems have none.
#[cfg(not(unix))]
pub fn given() -> impl Iterator<Item = impl Read + Send + 'static> {
    std::iter::empty::<File>()
}
