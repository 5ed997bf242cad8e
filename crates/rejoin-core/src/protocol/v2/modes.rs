//! Converts changes of config options and of the mode, which are the same in version 2.

use crate::json::{self, Members, quoted};
use crate::protocol::meta::add_note;

use super::settings;
use crate::json::Splice;

/// The kind of a change of the mode if the modes are unknown.
pub const CHANGED: &str = "_rejoin/current_mode_update";

/// The current settings of a session, in the form of version 1.
#[derive(Debug, Default)]
pub(super) struct Modes {
    options: Option<String>,
    listed: Option<String>,
    /// The JSON of the current mode, if it was changed.
    current: Option<String>,
}

impl Modes {
    /// Records the current settings.
    pub(super) fn tell(&mut self, options: Option<&str>, modes: Option<&str>) {
        if let Some(options) = options {
            self.options = Some(options.to_owned());
        }
        if let Some(modes) = modes {
            self.listed = Some(modes.to_owned());
            self.current = None;
        }
    }

    /// Records that the mode was set.
    pub(super) fn set(&mut self, mode: &str) {
        self.current = Some(quoted(mode));
    }

    /// The id of the option that represents the modes, if there is one.
    pub(super) fn option_id(&self) -> Option<&'static str> {
        settings::mode_config_id(self.options.as_deref(), self.listed.as_deref())
    }

    /// A result in the form of version 1, with the current options and modes.
    pub(super) fn with_all(&self, result: &str) -> String {
        let mut all = Members::of(result).without(&["configOptions", "modes"]);
        if let Some(options) = &self.options {
            all.set("configOptions", options);
        }
        self.with_modes(&all.text())
    }

    /// A result in the form of version 1, with the current modes unless it has some.
    pub(super) fn with_modes(&self, result: &str) -> String {
        let mut all = Members::of(result);
        if let Some(listed) = &self.listed {
            let modes = match &self.current {
                Some(current) => Members::of(listed).with("currentModeId", current).text(),
                None => listed.clone(),
            };
            all.set_default("modes", modes);
        }
        all.text()
    }

    /// The option that represents the mode next to these options.
    fn mode_option(&self, options: Option<&str>) -> Option<Vec<u8>> {
        let modes = self.listed.as_deref()?;
        let id = settings::mode_config_id(options, Some(modes))?;
        settings::mode_option(id, modes, self.current.as_deref())
    }

    /// Converts the `config_option_update` at `at`.
    pub(super) fn options<'a>(&mut self, text: &'a [u8], at: usize) -> Option<Splice<'a>> {
        let value = json::member(text, at, "configOptions")?;
        json::elements(text, value.start)?;
        let options = std::str::from_utf8(&text[value.clone()]).ok()?.to_owned();
        let mut shown = Vec::new();
        settings::write(
            options.as_bytes(),
            self.mode_option(Some(&options)).as_deref(),
            &mut shown,
        );
        self.options = Some(options);
        let mut splice = Splice::new(text);
        splice.replace(value, shown);
        Some(splice)
    }

    /// Converts the `current_mode_update` at `at`: to an update of the options if they are known,
    /// otherwise to an update of our own kind.
    pub(super) fn mode<'a>(&mut self, text: &'a [u8], at: usize) -> Option<Splice<'a>> {
        let name = json::member(text, at, "sessionUpdate")?;
        let mut splice = Splice::new(text);
        let Some((member, shown)) = self.changed(text, at) else {
            splice.replace(name, format!("\"{CHANGED}\"").into_bytes());
            return Some(splice);
        };
        splice.replace(name, b"\"config_option_update\"");
        let note = [b"\"currentModeId\":", &text[member.value.clone()]].concat();
        let instead = [b"\"configOptions\":", &shown[..]].concat();
        splice.replace(member.key.start - 1..member.value.end, instead);
        add_note(&mut splice, at, &note);
        Some(splice)
    }

    /// The member with the current mode, and all options with it.
    fn changed(&mut self, text: &[u8], at: usize) -> Option<(json::Member, Vec<u8>)> {
        let mut found = None;
        let mut members = json::members(text, at)?;
        while let Some(member) = members.member() {
            match &text[member.key.clone()] {
                b"currentModeId" if found.is_none() => found = Some(member),
                b"currentModeId" | b"configOptions" => return None,
                _ => {}
            }
        }
        let member = found?;
        json::string_body(text, &member.value)?;
        let current = std::str::from_utf8(&text[member.value.clone()]).ok()?;
        let options = self.options.as_deref();
        if let Some(set) = options.and_then(|options| settings::with_mode(options, current)) {
            let mut shown = Vec::new();
            settings::write(set.as_bytes(), None, &mut shown);
            self.options = Some(set);
            return Some((member, shown));
        }
        self.listed.as_deref()?;
        self.current = Some(current.to_owned());
        let mode = self.mode_option(self.options.as_deref())?;
        let mut shown = Vec::new();
        let options = self.options.as_deref().unwrap_or("[]");
        settings::write(options.as_bytes(), Some(&mode), &mut shown);
        Some((member, shown))
    }
}
