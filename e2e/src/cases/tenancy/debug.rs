//! A part of row T1: what does a pod of a tenant learn from the debug answers of both programs?
//!
//! The programs are standby replicas of their own that listen on every address, as in the chart. They are asked from outside: from an
//! address of this machine that is no loopback address, with and without a token of the tenant. By default they refuse every such client.
//! With `--secure-serving` they refuse the tenant and answer an administrator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::OWN;
use crate::cases::endpoint::{account, bind, grant_secure_serving};
use crate::https::Https;
use crate::programs::{self, Program, free_port};
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;
use crate::{chart, http, kubeconfig};

/// The debug paths of the scheduler. The controller has none.
const PATHS: [&str; 4] = ["/debug/ledger", "/debug/queues", "/debug/audit", "/debug/view"];

/// The queue of the other tenant, as an administrator sees it.
const THEIRS: &str = "\"b\"";

/// Asks both programs by default, and with `--secure-serving`.
pub(super) async fn tells_nothing(w: &World) -> Result<()> {
    let client = w.client();
    grant_secure_serving(w, &[chart::CONTROLLER, chart::SCHEDULER]).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), OWN);
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}}))?;
    let answer = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    let token = answer.status.and_then(|status| status.token).context("the API server gave no token")?;
    let admin = account(&client, "admin").await?;
    bind(&client, "admin", "podgroup-debug-reader").await?;
    let outside = outside()?;
    for name in [chart::CONTROLLER, chart::SCHEDULER] {
        // The controller answers as to every path that it does not have.
        let refused = |code| if name == chart::SCHEDULER { code } else { 404 };
        let mut open = start(w, name, false).await?;
        let at = SocketAddr::new(outside, open.port());
        wait_answer(name, || http::get(open.port(), "/debug/queues")).await?;
        for path in PATHS {
            for headers in [String::new(), format!("Authorization: Bearer {token}\r\nX-Forwarded-For: 127.0.0.1\r\n")] {
                is_refused(http::get_at(at, path, &headers).await?, refused(403), name, path)?;
            }
        }
        open.terminate().await?;

        let mut secure = start(w, name, true).await?;
        let at = SocketAddr::new(outside, secure.port());
        let https = Https::trusting_all()?;
        wait_answer(name, || https.get_at(at, "/debug/queues", Some(&admin))).await?;
        for path in PATHS {
            for (token, code) in [(None, 401), (Some(token.as_str()), 403)] {
                // 503 while the API server has not answered the reviews.
                let answer = wait_until(secs(20), &format!("{name} answers GET {path}"), || async {
                    let answer = https.get_at(at, path, token).await?;
                    Ok(if answer.0 == 503 { Seen::NotYet(answer.1) } else { Seen::Yes(answer) })
                })
                .await?;
                is_refused(answer, refused(code), name, path)?;
            }
        }
        secure.terminate().await?;
    }
    Ok(())
}

/// Waits until an administrator sees the queue of the other tenant: the scheduler knows the cluster, and the request is right. The
/// controller has no such path.
async fn wait_answer<F: Future<Output = Result<(u16, String)>>>(name: &str, ask: impl Fn() -> F) -> Result<()> {
    wait_until(secs(30), &format!("{name} answers an administrator"), || async {
        let (code, body) = ask().await?;
        let answered = if name == chart::SCHEDULER { code == 200 && body.contains(THEIRS) } else { code == 404 };
        Ok(Seen::when(answered, || format!("{code}: {body}")))
    })
    .await
}

fn is_refused((code, body): (u16, String), wanted: u16, name: &str, path: &str) -> Result<()> {
    ensure!(code == wanted, "{name} answers {code} to GET {path}, expected {wanted}: {body}");
    ensure!(!body.contains(THEIRS) && !body.contains('{'), "{name} tells a tenant at {path}: {body}");
    Ok(())
}

/// Starts a replica that listens on every address. The world's programs lead, so it stands by, and its view of the cluster is as complete as theirs.
async fn start(w: &World, name: &'static str, secure: bool) -> Result<Program> {
    let label = format!("{name}-{}", if secure { "secure" } else { "open" });
    let (server, authority) = kubeconfig::door(w.cluster().kubeconfig())?;
    let kubeconfig = chart::kubeconfig_as(w.cluster(), name, &label, server, &authority).await?;
    let port = free_port()?;
    let flags = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--http-address=0.0.0.0:{port}"),
        format!("--secure-serving={secure}"),
        "--log-format=text".to_owned(),
    ];
    let environment = [("HOSTNAME".to_owned(), label.clone())];
    Program::exactly(w.cluster().scratch(), &programs::folder()?, name, &label, flags, &environment, port)
}

/// Returns an address of this machine that is no loopback address. Connecting a UDP socket sends nothing: it only chooses the address from
/// which packets would go.
fn outside() -> Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(("198.51.100.1", 9)).context("this machine has no address besides its loopback address, from which a pod would ask")?;
    Ok(socket.local_addr()?.ip())
}
