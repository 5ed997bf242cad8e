//! Answers an MCP client.

use std::io;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use rmcp::{ServerHandler, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::index::Catalog;
use crate::sources::LiveSources;
use crate::store::Store;

use super::scope::{Scope, Sessions};
use super::tools;

/// Serves the sessions of a store, and the conversations of these tools, to the client at the other
/// end of `input` and `output`, until the input ends.
pub async fn serve(
    store: Store,
    tools: Option<Arc<LiveSources>>,
    scope: Scope,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> io::Result<()> {
    let server = Server(Arc::new(Sessions {
        catalog: Catalog::with_tools(store.clone(), tools.clone()),
        store,
        tools,
        scope,
    }));
    match server.serve((input, output)).await {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        // A client that leaves at once is no failure.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// The server. Clones share it.
#[derive(Clone, Debug)]
struct Server(Arc<Sessions>);

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools().build();
        let name = Implementation::new("rejoin", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(tools)
            .with_server_info(name)
            .with_instructions(tools::instructions(&self.0.scope))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let sessions = self.0.clone();
        let name = call.name.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let cancelled = || context.ct.is_cancelled();
            let arguments = call.arguments.unwrap_or_default();
            tools::call(&sessions, &call.name, arguments, &cancelled)
        });
        match answer.await {
            Ok(Some(outcome)) => Ok(outcome.0.into()),
            Ok(None) => {
                let unknown = format!("there is no tool {name:?}");
                Err(ErrorData::invalid_params(unknown, None))
            }
            Err(_) => Err(ErrorData::internal_error("the tool failed", None)),
        }
    }
}
