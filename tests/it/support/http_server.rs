//! An MCP server that is reached over HTTP, on this machine.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::wrapped::{mcp_server, until};

/// A server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct HttpServer(Child);

impl HttpServer {
    /// Starts it and returns its address.
    pub(crate) fn start(folder: &Path) -> Result<(Self, String), String> {
        let file = folder.join("address");
        let child = Command::new(mcp_server())
            .arg("--http")
            .arg(&file)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("it cannot be started: {error}"))?;
        let server = Self(child);
        let mut url = String::new();
        until(|| {
            url = std::fs::read_to_string(&file).unwrap_or_default();
            if url.ends_with("/mcp") {
                Ok(())
            } else {
                Err("it does not write its address".to_owned())
            }
        })?;
        Ok((server, url))
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
