//! A minimal HTTP client for the programs' own port: health, metrics and debug endpoints.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of a request. A local program that needs longer does not answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns status and body of `GET path` at `127.0.0.1:port`. It uses HTTP/1.0, so the response ends with the connection and is never chunked.
pub async fn get(port: u16, path: &str) -> Result<(u16, String)> {
    get_at((Ipv4Addr::LOCALHOST, port).into(), path, "").await
}

/// Does the same at another address, with further headers. Each header ends with its line end.
pub async fn get_at(address: SocketAddr, path: &str, headers: &str) -> Result<(u16, String)> {
    timeout(TIMEOUT, async { exchange(TcpStream::connect(address).await?, path, &format!("Host: {address}\r\n{headers}")).await })
        .await
        .with_context(|| format!("no response from {address} to GET {path}"))?
        .with_context(|| format!("GET {path} at {address}"))
}

/// Returns the JSON at `path`. Any status but 200 is an error.
pub async fn json(port: u16, path: &str) -> Result<serde_json::Value> {
    let (status, body) = get(port, path).await?;
    if status != 200 {
        bail!("GET {path} answered {status}: {body}");
    }
    serde_json::from_str(&body).with_context(|| format!("the response to GET {path} is not JSON: {body}"))
}

/// Returns status and body of `GET path` over an open connection. Each header ends with its line end.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str) -> Result<(u16, String)> {
    stream.write_all(format!("GET {path} HTTP/1.0\r\n{headers}Connection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    parse(&String::from_utf8_lossy(&answer))
}

fn parse(answer: &str) -> Result<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the response has no end of its headers")?;
    let status = head.split_whitespace().nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn status_and_body_are_separated() {
        let (status, body) = super::parse("HTTP/1.0 503 Service Unavailable\r\na: b\r\n\r\nlists\r\n\r\nmissing").unwrap();
        assert_eq!((status, body.as_str()), (503, "lists\r\n\r\nmissing"));
        assert!(super::parse("nonsense").is_err());
    }
}
