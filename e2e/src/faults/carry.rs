//! Forwards one request to the API server and its response to the program, and applies one fault on the way.

use std::sync::Arc;

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response, Uri};
use kube::Client;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::control::{Control, Unused};
use super::fault::{Fault, Refusal};
use super::request::{ApiRequest, Verb};
use super::{Body, Broken, answer, stream};

/// A request that can be forwarded several times to one API server, with the credentials of its program.
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
            // The proxy must read the response, so it must not be compressed. The other headers are for one connection only.
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

    /// Sends the request and returns the whole response.
    pub(super) async fn ask(&self, server: &Client) -> Result<(Parts, Bytes), Broken> {
        let (parts, body) = self.forward(server).await?.into_parts();
        Ok((parts, body.collect().await.map_err(Broken::other)?.to_bytes()))
    }
}

/// Answers one request. An error cuts the connection.
pub(super) async fn carry(request: Request<Incoming>, control: Arc<Control>, server: Client) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(Broken::other)?.to_bytes();
    let api_request = ApiRequest::read(&parts.method, &parts.uri);
    let sent = Sent { method: parts.method, uri: parts.uri, headers: parts.headers, body };
    if let Some((parts, body)) = control.view(&api_request) {
        control.ledger.injected("old-view", &api_request, "answered with the stored state");
        return Ok(whole_response(parts, body));
    }
    // Before the decision: what ends the mix after it also ends the fault of a watch that the server has not answered yet.
    let generation = control.generation();
    let (fault, rule) = control.decide(&api_request).unzip();
    let unused = rule.flatten().map(|rule| Unused::new(&control, rule));
    if let Some(fault) = fault.filter(|fault| !matches!(fault, Fault::Stream(..))) {
        control.ledger.injected(fault.kind(), &api_request, &format!("{fault:?}"));
    }
    match fault {
        None => pass(&sent, api_request, (generation, None, None), control, server).await,
        Some(Fault::Stream(after, what)) => pass(&sent, api_request, (generation, Some((after, what)), unused), control, server).await,
        Some(Fault::DelayRequest(delay)) => {
            let held = control.count_delayed();
            sleep(delay).await;
            drop(held);
            pass(&sent, api_request, (generation, None, None), control, server).await
        }
        Some(Fault::HoldRequest(delay)) => {
            let (control_then, answered) = (Arc::clone(&control), oneshot::channel());
            control.later(async move {
                let _held = control_then.count_delayed();
                let began = Instant::now();
                tokio::select! {
                    () = sleep(delay) => {}
                    () = control_then.let_go() => {}
                }
                let answer = sent.ask(&server).await;
                let became = match &answer {
                    Ok((parts, _)) => format!("sent after {:?}, the response was {}", began.elapsed(), parts.status),
                    Err(error) => format!("could not be sent: {error}"),
                };
                control_then.ledger.later("delay-request", &api_request, &became);
                // The program may be gone.
                let _ = answered.0.send(answer);
            });
            let (parts, body) = answered.1.await.map_err(Broken::other)??;
            Ok(whole_response(parts, body))
        }
        Some(Fault::DelayResponse(delay)) => {
            let held = control.count_delayed();
            if api_request.verb == Verb::Watch {
                sleep(delay).await;
                drop(held);
                return pass(&sent, api_request, (generation, None, None), control, server).await;
            }
            let (parts, body) = sent.ask(&server).await?;
            sleep(delay).await;
            drop(held);
            Ok(whole_response(parts, body))
        }
        Some(Fault::Refuse(refusal)) => answer::refusal(refusal, &api_request),
        Some(Fault::CutBefore) => Err(Broken::on_purpose()),
        Some(Fault::CutMiddle) => {
            let (parts, body) = sent.ask(&server).await?;
            Ok(half_response(parts, &body))
        }
        Some(Fault::LoseReply) => {
            let (parts, _) = sent.ask(&server).await?;
            control.ledger.later("lost-reply", &api_request, &format!("the response was {}", parts.status));
            Err(Broken::on_purpose())
        }
        Some(Fault::Late(delay)) => {
            let (control_then, request_then) = (Arc::clone(&control), api_request.clone());
            control.later(async move {
                let _held = control_then.count_delayed();
                sleep(delay).await;
                let became = match sent.ask(&server).await {
                    Ok((parts, _)) => format!("sent after {delay:?}, the response was {}", parts.status),
                    Err(error) => format!("could not be sent: {error}"),
                };
                control_then.ledger.later("504-late", &request_then, &became);
            });
            answer::refusal(Refusal::Timeout, &api_request)
        }
    }
}

/// Forwards the request unchanged. A watch also goes through `stream`, because a fault may come later.
async fn pass(
    sent: &Sent,
    api_request: ApiRequest,
    first: stream::First,
    control: Arc<Control>,
    server: Client,
) -> Result<Response<Body>, Broken> {
    let (mut parts, body) = sent.forward(&server).await?.into_parts();
    if api_request.verb == Verb::Watch && parts.status.is_success() {
        parts.headers.remove(CONTENT_LENGTH);
        return Ok(Response::from_parts(parts, stream::relay(body, sent.clone(), api_request, first, control, server)));
    }
    Ok(Response::from_parts(parts, body.map_err(Broken::other).boxed_unsync()))
}

fn whole_response(parts: Parts, body: Bytes) -> Response<Body> {
    Response::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed_unsync())
}

/// Sends a head with the full length and half of the body, then cuts the connection.
fn half_response(mut parts: Parts, body: &Bytes) -> Response<Body> {
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    let half = body.slice(..body.len() / 2);
    let pieces = futures::stream::iter([Ok(Frame::data(half)), Err(Broken::on_purpose())]);
    Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync())
}
