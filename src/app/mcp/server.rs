//! The Model Context Protocol: lists the tools and calls them, one after the other.

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::Mutex;

use super::arguments::check_names;
use super::compare::compare;
use super::diagnose::diagnose;
use super::explain::explain;
use super::recordings::recordings;
use super::schema::TOOLS;
use super::table::{history, table};
use super::tool::{AllowedTargets, Arguments, ToolError, ToolResult};
use crate::report::json::escape_unprintable;

const INSTRUCTIONS: &str = "stalltop finds out why a Linux machine is slow. Call diagnose first: its findings are ordered by cause. \
                            explain says what a kind of finding means; table and history have the figures. Nothing is changed on any \
                            machine but the learned latencies of its disks.";

/// The server of one client.
pub struct Server {
    allowed: AllowedTargets,
    /// A client cannot make the monitor a load: one command at a time.
    running: Mutex<()>,
}

impl Server {
    pub fn new(allowed: AllowedTargets) -> Server {
        Server { allowed, running: Mutex::new(()) }
    }

    async fn call(&self, name: &str, arguments: &Arguments) -> Option<ToolResult> {
        let tool = TOOLS.iter().find(|tool| tool.name == name)?;
        if let Err(error) = check_names(arguments, &(tool.arguments)()) {
            return Some(Err(error));
        }
        let _running = self.running.lock().await;
        let allowed = &self.allowed;
        Some(match name {
            "diagnose" => diagnose(arguments, allowed).await,
            "table" => table(arguments, allowed).await,
            "history" => history(arguments, allowed).await,
            "compare" => compare(arguments, allowed).await,
            "explain" => explain(arguments),
            "recordings" => {
                let (arguments, allowed) = (arguments.clone(), allowed.clone());
                match tokio::task::spawn_blocking(move || recordings(&arguments, &allowed)).await {
                    Ok(result) => result,
                    Err(error) => Err(ToolError::Command(error.to_string())),
                }
            }
            _ => return None,
        })
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("stalltop", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |definition: &super::schema::ToolDefinition| {
            Tool::new(definition.name, definition.description, definition.input_schema())
                .with_title(definition.title)
                .with_raw_output_schema(definition.output_schema().into())
                .with_annotations(ToolAnnotations::new().read_only(true))
        };
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        match self.call(&request.name, &arguments).await {
            Some(Ok(answer)) => {
                // A client may show the text on a terminal.
                let text = ContentBlock::text(escape_unprintable(&answer.to_string()));
                let mut result = CallToolResult::structured(answer);
                result.content = vec![text];
                Ok(result.into())
            }
            Some(Err(error)) => Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into()),
            None => Err(ErrorData::invalid_params(format!("no tool '{}'", request.name), None)),
        }
    }
}
