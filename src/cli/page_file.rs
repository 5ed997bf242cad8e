//! Files with a whole conversation, which only the user can read, and showing them in the browser.
#![expect(
    clippy::disallowed_methods,
    reason = "writes files of the user's, which are no part of the store"
)]

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rejoin::sys::{SessionId, Sys, Timestamp, folders};

use super::exit::Failure;
use super::helper;

/// How long a page that was shown is kept.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// How long it may take to say that no browser can be opened.
const OPENED_WITHIN: Duration = Duration::from_secs(3);

/// A file that is being written. Dropped before it is finished, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct PrivateFile {
    path: PathBuf,
    /// Where it is written first; nothing for pipes and devices, which are written at once.
    part: Option<PathBuf>,
    file: Option<BufWriter<File>>,
}

impl PrivateFile {
    /// Creates a file with this path, instead of one that is there. Symbolic links stay, and so does
    /// what is not a regular file: it is written to.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let target = fs::canonicalize(path);
        // A link may lead to a file that does not exist yet.
        let target = target.or_else(|_| fs::read_link(path).map(|to| path.with_file_name(to)));
        let path = target.unwrap_or_else(|_| path.to_owned());
        let is_replaced = fs::metadata(&path).map_or(true, |there| there.is_file());
        let mut options = OpenOptions::new();
        options.write(true);
        let part = is_replaced.then(|| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.part", std::process::id()));
            path.with_file_name(name)
        });
        if part.is_some() {
            options.create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let file = options.open(part.as_ref().unwrap_or(&path));
        let file = file.map_err(|error| cannot(&path, &error))?;
        Ok(Self {
            path,
            part,
            file: Some(BufWriter::new(file)),
        })
    }

    /// Appends text.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        let file = self.file.as_mut();
        file.map_or(Ok(()), |file| file.write_all(text.as_bytes()))
            .map_err(|error| cannot(&self.path, &error))
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        // Windows does not rename files that are open.
        let flushed = self.file.take().map_or(Ok(()), |mut file| file.flush());
        let named = flushed.and_then(|()| match &self.part {
            Some(part) => fs::rename(part, &self.path),
            None => Ok(()),
        });
        named.map_err(|error| cannot(&self.path, &error))?;
        self.part = None;
        Ok(())
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            fs::remove_file(part).ok();
        }
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// The file for a page of this name in the user's cache. Removes those that were shown long ago.
pub(super) fn page(name: &str) -> Result<PathBuf, Failure> {
    let folder = folders::cache().map(|cache| cache.join("pages"));
    let folder = folder.ok_or_else(|| {
        Failure::new("cannot determine where to write the page: the home folder is unknown")
            .hint("use `rejoin export --format html --output FILE`")
    })?;
    create_private(&folder).map_err(|error| cannot(&folder, &error))?;
    remove_old(&folder);
    Ok(folder.join(name))
}

/// Removes the page of this name from the user's cache, if there is one.
pub(super) fn remove_page(name: &str) -> Result<(), Failure> {
    let Some(cache) = folders::cache() else {
        return Ok(());
    };
    let page = cache.join("pages").join(name);
    match fs::remove_file(&page) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let page = page.display();
            Err(Failure::new(format!("cannot remove {page}: {error}")))
        }
        _ => Ok(()),
    }
}

fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn remove_old(folder: &Path) {
    let now = Sys::real().clock.now().as_millis();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let age = changed.map(|changed| {
            let changed = Timestamp::of_system(changed).as_millis();
            u64::try_from(now - changed).unwrap_or(0)
        });
        if age.is_ok_and(|age| Duration::from_millis(age) > KEPT_FOR) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// The name of a session's page.
pub(super) fn name_of(id: &SessionId) -> String {
    format!("{id}.html")
}

/// Shows a page in the user's browser; false if there is no display, or no program that shows it.
pub(super) fn show(path: &Path) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let (program, arguments): (_, &[&str]) = if cfg!(windows) {
        // The first argument in quotes is the title of a window.
        ("cmd", &["/C", "start", ""])
    } else if cfg!(target_os = "macos") {
        ("open", &[])
    } else if ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"]
        .into_iter()
        .any(is_set)
    {
        ("xdg-open", &[])
    } else {
        return false;
    };
    let arguments = arguments.iter().map(OsStr::new);
    let mut command = Command::new(program);
    command.args(arguments.chain([path.as_os_str()]));
    // Some programs stay as long as the browser does.
    let ended = helper::start(&mut command, OPENED_WITHIN);
    ended.is_ok_and(|status| status.is_none_or(|status| status.success()))
}
