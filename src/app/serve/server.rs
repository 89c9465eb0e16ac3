//! Accepts connections and bounds what clients can cost: connections at a time, time to send a header, its size, the life of a
//! connection. At the limit of connections the oldest one is closed: clients that only hold connections cannot keep a scrape out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::response::respond;
use super::{Access, LatestMetrics};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::threads;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// From the beginning of a connection, or the last answer, to the end of the next header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection is closed after this time. A scrape takes milliseconds; a scraper connects again.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(120);

/// Buffer of a connection: its header must fit into it.
const MAX_HEADER_BYTES: usize = 16 * 1024;

const MAX_HEADERS: usize = 64;

/// After a failure to accept: no descriptors, or no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The running thread. Dropping it ends the thread and its connections.
pub struct HttpServer {
    _stop: oneshot::Sender<()>,
}

impl HttpServer {
    /// Starts the thread; it has the priority of the calling thread.
    pub fn start(listener: TcpListener, access: Access, latest: LatestMetrics) -> Result<HttpServer, Failure> {
        let failure = |error| Failure::new(Exit::Failed, "cannot serve metrics", error, "");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failure)?;
        let listener = {
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failure)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, Arc::new(access), latest) => {}
                    _ = stopped => {}
                }
            });
        };
        threads::spawn("http", run)?;
        Ok(HttpServer { _stop: stop })
    }
}

async fn accept(listener: tokio::net::TcpListener, access: Arc<Access>, latest: LatestMetrics) {
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        while connections.len() >= MAX_CONNECTIONS {
            if let Some(oldest) = connections.pop_front() {
                oldest.abort();
            }
        }
        let (access, latest) = (Arc::clone(&access), latest.clone());
        let connection = tokio::spawn(async move {
            // The client is told nothing more.
            let _ = timeout(MAX_CONNECTION_TIME, serve(stream, access, latest)).await;
        });
        connections.push_back(connection.abort_handle());
    }
}

/// With TLS, the handshake has to be done in the time that a header has.
async fn serve(stream: TcpStream, access: Arc<Access>, latest: LatestMetrics) {
    #[cfg(feature = "tls")]
    if let Some(acceptor) = access.tls() {
        if let Ok(Ok(stream)) = timeout(HEADER_TIMEOUT, acceptor.accept(stream)).await {
            answer_requests(stream, &access, &latest).await;
        }
        return;
    }
    answer_requests(stream, &access, &latest).await;
}

async fn answer_requests(stream: impl AsyncRead + AsyncWrite + Unpin, access: &Access, latest: &LatestMetrics) {
    let answer = |request: Request<Incoming>| async move {
        let refusal = access.refusal(request.headers()).await;
        let response = refusal.unwrap_or_else(|| respond(request.method(), request.uri().path(), request.headers(), latest));
        Ok::<Response<_>, Infallible>(response)
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    // An error is of the client: garbage, a timeout, a reset.
    let _ = connection.await;
}
