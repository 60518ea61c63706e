//! How is one request carried to the API server and its answer back, and what is done to both on the way?

use std::sync::Arc;

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response, Uri};
use kube::Client;
use tokio::time::sleep;

use super::control::Control;
use super::fault::{Fault, Refusal};
use super::request::{Asked, Verb};
use super::{Body, Broken, answer, stream};

/// A request that can be sent as often as one likes, to one API server, as the program that it comes from.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Sent {
    pub(super) async fn forward(&self, server: &Client) -> Result<Response<kube::client::Body>, Broken> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder().method(&self.method).uri(path);
        for (name, value) in &self.headers {
            // A compressed answer could not be looked into, and the others are between two neighbours only.
            if ![HOST, CONNECTION, TRANSFER_ENCODING, ACCEPT_ENCODING].contains(name) {
                request = request.header(name, value);
            }
        }
        let request = request.body(kube::client::Body::from(self.body.to_vec())).map_err(Broken::other)?;
        let mut answer = server.send(request).await.map_err(Broken::other)?;
        answer.headers_mut().remove(CONNECTION);
        answer.headers_mut().remove(TRANSFER_ENCODING);
        Ok(answer)
    }

    /// The whole answer.
    pub(super) async fn ask(&self, server: &Client) -> Result<(Parts, Bytes), Broken> {
        let (parts, body) = self.forward(server).await?.into_parts();
        Ok((parts, body.collect().await.map_err(Broken::other)?.to_bytes()))
    }
}

/// Answers one request; an error cuts the connection.
pub(super) async fn carry(request: Request<Incoming>, control: Arc<Control>, server: Client) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(Broken::other)?.to_bytes();
    let asked = Asked::read(&parts.method, &parts.uri);
    let sent = Sent { method: parts.method, uri: parts.uri, headers: parts.headers, body };
    if let Some((parts, body)) = control.view(&asked) {
        control.ledger.injected("old-view", &asked, "answered with the state that was kept");
        return Ok(whole(parts, body));
    }
    let fault = control.decide(&asked);
    if let Some(fault) = fault.filter(|fault| !matches!(fault, Fault::Stream(..))) {
        control.ledger.injected(fault.kind(), &asked, &format!("{fault:?}"));
    }
    match fault {
        None => pass(&sent, asked, None, control, server).await,
        Some(Fault::Stream(after, what)) => pass(&sent, asked, Some((after, what)), control, server).await,
        Some(Fault::DelayRequest(delay)) => {
            let held = control.hold_up();
            sleep(delay).await;
            drop(held);
            pass(&sent, asked, None, control, server).await
        }
        Some(Fault::DelayResponse(delay)) => {
            let held = control.hold_up();
            if asked.verb == Verb::Watch {
                sleep(delay).await;
                drop(held);
                return pass(&sent, asked, None, control, server).await;
            }
            let (parts, body) = sent.ask(&server).await?;
            sleep(delay).await;
            drop(held);
            Ok(whole(parts, body))
        }
        Some(Fault::Refuse(refusal)) => answer::refusal(refusal, &asked),
        Some(Fault::CutBefore) => Err(Broken::on_purpose()),
        Some(Fault::CutMiddle) => {
            let (parts, body) = sent.ask(&server).await?;
            Ok(halved(parts, &body))
        }
        Some(Fault::LoseReply) => {
            let (parts, _) = sent.ask(&server).await?;
            control.ledger.later("lost-reply", &asked, &format!("the answer was {}", parts.status));
            Err(Broken::on_purpose())
        }
        Some(Fault::Late(delay)) => {
            let (control_then, asked_then) = (Arc::clone(&control), asked.clone());
            control.later(async move {
                let _held = control_then.hold_up();
                sleep(delay).await;
                let became = match sent.ask(&server).await {
                    Ok((parts, _)) => format!("landed after {delay:?}, and the answer was {}", parts.status),
                    Err(error) => format!("could not be sent any more: {error}"),
                };
                control_then.ledger.later("504-late", &asked_then, &became);
            });
            answer::refusal(Refusal::Timeout, &asked)
        }
    }
}

/// Nothing is done to the request itself. A watch goes through the hands of `stream` all the same, for what may come later.
async fn pass(
    sent: &Sent,
    asked: Asked,
    first: Option<(std::time::Duration, super::fault::StreamFault)>,
    control: Arc<Control>,
    server: Client,
) -> Result<Response<Body>, Broken> {
    let (mut parts, body) = sent.forward(&server).await?.into_parts();
    if asked.verb == Verb::Watch && parts.status.is_success() {
        parts.headers.remove(CONTENT_LENGTH);
        return Ok(Response::from_parts(parts, stream::relay(body, sent.clone(), asked, first, control, server)));
    }
    Ok(Response::from_parts(parts, body.map_err(Broken::other).boxed_unsync()))
}

fn whole(parts: Parts, body: Bytes) -> Response<Body> {
    Response::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed_unsync())
}

/// The head promises all of it, the half comes, and the connection is cut.
fn halved(mut parts: Parts, body: &Bytes) -> Response<Body> {
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    let half = body.slice(..body.len() / 2);
    let pieces = futures::stream::iter([Ok(Frame::data(half)), Err(Broken::on_purpose())]);
    Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync())
}
