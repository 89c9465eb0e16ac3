//! `mcp`: tools for agents by the Model Context Protocol, over standard input and output (Cargo feature `mcp`).

#[cfg(feature = "mcp")]
mod with_protocol {
    use std::io::IsTerminal;
    use std::path::PathBuf;

    use rmcp::ServiceExt;
    use rmcp::transport::stdio;

    use crate::app::mcp::{AllowedTargets, Server};
    use crate::app::program::exit::{Exit, Failure};
    use crate::cli::Mcp;

    /// Where the recorder's service writes.
    const SERVICE_DIRECTORY: &str = "/var/lib/stalltop-record";

    pub fn mcp(options: &Mcp) -> Result<Exit, Failure> {
        const CANNOT: &str = "cannot serve the Model Context Protocol";
        if std::io::stdin().is_terminal() {
            let why = "standard input is a terminal";
            return Err(Failure::new(
                Exit::Usage,
                CANNOT,
                why,
                "let an agent start it, such as 'claude mcp add stalltop -- stalltop mcp'",
            ));
        }
        let directories = match options.directories.as_slice() {
            [] => vec![PathBuf::from("."), PathBuf::from(SERVICE_DIRECTORY)],
            given => given.to_vec(),
        };
        let server = Server::new(AllowedTargets { directories, hosts: options.hosts.clone() });
        let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, CANNOT, error, "");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let ended = runtime.block_on(async {
            let service = server.serve(stdio()).await.map_err(|error| failed(&error))?;
            service.waiting().await.map_err(|error| failed(&error))
        });
        // A read of standard input cannot be cancelled.
        runtime.shutdown_background();
        ended.map(|_| Exit::Success)
    }
}

#[cfg(not(feature = "mcp"))]
mod without_protocol {
    use crate::app::program::exit::{Exit, Failure};
    use crate::cli::Mcp;

    /// Fails.
    pub fn mcp(_: &Mcp) -> Result<Exit, Failure> {
        let why = "this stalltop was built without it";
        let remedy = "build it with --features mcp, or take a package, which has it";
        Err(Failure::new(Exit::Usage, "cannot serve the Model Context Protocol", why, remedy))
    }
}

#[cfg(feature = "mcp")]
pub use with_protocol::mcp;
#[cfg(not(feature = "mcp"))]
pub use without_protocol::mcp;
