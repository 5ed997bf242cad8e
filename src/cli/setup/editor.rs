//! The editors, and where their settings are.

use std::path::PathBuf;

use clap::ValueEnum;

/// An editor with ACP agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Editor {
    /// Zed.
    Zed,
    /// The IDEs of JetBrains.
    Jetbrains,
    /// Neovim with CodeCompanion or avante.
    Neovim,
    /// Emacs with agent-shell.
    Emacs,
}

/// Where programs keep their settings.
#[derive(Debug)]
pub(in crate::cli) struct EditorFolders {
    pub(super) home: PathBuf,
    /// `~/.config`, or what takes its place.
    pub(super) config: PathBuf,
    /// The configuration folder of programs that follow their system more closely.
    native: PathBuf,
}

impl EditorFolders {
    /// The folders of the user; none if the home folder is unknown.
    pub(in crate::cli) fn of_user() -> Option<Self> {
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        let named = |name: &str| {
            let folder = std::env::var_os(name).map(PathBuf::from);
            folder.filter(|folder| folder.is_absolute())
        };
        let config = if cfg!(windows) {
            named("APPDATA").unwrap_or_else(|| home.join("AppData").join("Roaming"))
        } else {
            named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
        };
        let native = if cfg!(target_os = "macos") {
            home.join("Library").join("Application Support")
        } else {
            config.clone()
        };
        Some(Self {
            home,
            config,
            native,
        })
    }

    /// A path in settings: `~` is the home folder.
    pub(in crate::cli) fn whole(&self, path: &str) -> PathBuf {
        path.strip_prefix("~/")
            .map_or_else(|| PathBuf::from(path), |rest| self.home.join(rest))
    }
}

impl Editor {
    /// All of them.
    pub(in crate::cli) const ALL: [Self; 4] =
        [Self::Zed, Self::Jetbrains, Self::Neovim, Self::Emacs];

    /// Its name.
    pub(in crate::cli) fn title(self) -> &'static str {
        match self {
            Self::Zed => "Zed",
            Self::Jetbrains => "JetBrains IDEs",
            Self::Neovim => "Neovim",
            Self::Emacs => "Emacs",
        }
    }

    /// Its name on the command line.
    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Zed => "zed",
            Self::Jetbrains => "jetbrains",
            Self::Neovim => "neovim",
            Self::Emacs => "emacs",
        }
    }

    /// Its files with agents in JSON, each with whether the editor is here: the first is the usual
    /// one.
    pub(in crate::cli) fn files(self, folders: &EditorFolders) -> Vec<(PathBuf, bool)> {
        match self {
            Self::Zed => {
                // Outside of Windows, Zed follows XDG, except on macOS.
                let config = if cfg!(target_os = "macos") {
                    folders.home.join(".config")
                } else {
                    folders.config.clone()
                };
                let name = if cfg!(windows) { "Zed" } else { "zed" };
                let usual = config.join(name);
                let mut found = vec![usual];
                if cfg!(target_os = "linux") {
                    let flatpak = folders.home.join(".var/app/dev.zed.Zed/config/zed");
                    found.extend(Some(flatpak).filter(|folder| folder.is_dir()));
                }
                let file = |folder: PathBuf| (folder.join("settings.json"), folder.is_dir());
                found.into_iter().map(file).collect()
            }
            Self::Jetbrains => {
                let own = folders.home.join(".jetbrains");
                let is_here = own.is_dir() || folders.native.join("JetBrains").is_dir();
                vec![(own.join("acp.json"), is_here)]
            }
            Self::Neovim | Self::Emacs => Vec::new(),
        }
    }

    /// Whether the user has settings for it, of whatever kind.
    pub(in crate::cli) fn is_here(self, folders: &EditorFolders) -> bool {
        let (home, config) = (&folders.home, &folders.config);
        match self {
            Self::Zed | Self::Jetbrains => self.files(folders).iter().any(|(_, here)| *here),
            Self::Neovim if cfg!(windows) => home.join("AppData/Local/nvim").is_dir(),
            Self::Neovim => config.join("nvim").is_dir(),
            Self::Emacs => [
                config.join("emacs"),
                home.join(".emacs.d"),
                home.join(".emacs"),
            ]
            .iter()
            .any(|path| path.exists()),
        }
    }

    /// How the user gets an agent of changed settings.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Zed => "New threads use it, at the latest after a restart of Zed.",
            _ => "New chats use it, at the latest after a restart of the IDE.",
        }
    }
}
