//! Kept-alive HTTP/1.1 connections of a population, bounded in number.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// An open connection; dropped, it is closed, even in the middle of an answer.
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The connections of a population.
pub(super) struct Pool {
    target: SocketAddr,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Pool {
    pub(super) fn new(target: SocketAddr, connections_max: usize) -> Self {
        Self { target, idle: Mutex::new(Vec::new()), places: Semaphore::new(connections_max) }
    }

    /// Sends a request and reads the whole answer. A connection that the server closed while it
    /// was idle is replaced once, as browsers do. Cancel safe: dropped, the connection is closed.
    pub(super) async fn exchange(&self, request: &Request<()>) -> Result<StatusCode, ()> {
        let _place = self.places.acquire().await.expect("never closed");
        if let Some(connection) = self.take_idle()
            && let Ok(status) = self.exchange_on(connection, request).await
        {
            return Ok(status);
        }
        let connection = self.connect().await?;
        self.exchange_on(connection, request).await
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    async fn connect(&self) -> Result<Connection, ()> {
        let stream = TcpStream::connect(self.target).await.map_err(|_| ())?;
        stream.set_nodelay(true).map_err(|_| ())?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| ())?;
        let driver = tokio::spawn(async move {
            // The error of a connection reaches whoever waits for its answer.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver })
    }

    async fn exchange_on(
        &self,
        mut connection: Connection,
        request: &Request<()>,
    ) -> Result<StatusCode, ()> {
        let request = request.clone().map(|()| Empty::new());
        let response = connection.sender.send_request(request).await.map_err(|_| ())?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|_| ())?;
        }
        if connection.sender.ready().await.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        Ok(status)
    }
}
