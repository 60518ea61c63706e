//! Row M3: the metrics of a program with `--secure-serving`, on a real API server, with the rights that the chart gives.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use crate::https::{Https, Mount};
use crate::replica::Replica;
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;
use crate::{chart, kit, objects};

/// The chart's ClusterRole for reading the metrics.
const READER: &str = "podgroup-metrics-reader";

/// M3. Health is open. Metrics need a known token and a right. A replaced certificate is used without a restart. Many bad tokens do not reach the API
/// server. While the API server is down, no new token is accepted.
pub(super) async fn for_authorized_clients(w: &mut World) -> Result<()> {
    let client = w.client();
    grant_secure_serving(w, &[chart::CONTROLLER]).await?;
    let (scraper, stranger) = (account(&client, "scraper").await?, account(&client, "stranger").await?);
    let late = account(&client, "late").await?;
    bind(&client, "scraper", READER).await?;

    let mount = Mount::new(w.cluster().scratch().path("certificate"))?;
    let first = Https::trusting(&mount.swap("one")?)?;
    let [certificate, key] = mount.flags();
    let mut program = Replica::start(w, "secure", &["--secure-serving", &certificate, &key], &[]).await?;
    let port = program.program.port();
    wait_status(&first, port, "/readyz", None, 200).await?;

    for (path, token, code) in
        [("/healthz", None, 200), ("/metrics", None, 401), ("/metrics", Some("unknown"), 401), ("/metrics", Some(stranger.as_str()), 403)]
    {
        wait_status(&first, port, path, token, code).await?;
        let (_, body) = first.get(port, path, token).await?;
        ensure!(!body.contains("podgroup_build_info"), "an account without the right saw the metrics: {body}");
    }
    let (_, body) = first.get(port, "/metrics", Some(&stranger)).await?;
    ensure!(body.contains("user=system:serviceaccount:default:stranger"), "the refusal does not name the account: {body}");
    // The authorizer may not have seen the binding yet, and a refusal is cached for 10 s.
    wait_status(&first, port, "/metrics", Some(&scraper), 200).await?;
    let (_, body) = first.get(port, "/metrics", Some(&scraper)).await?;
    ensure!(body.contains("podgroup_build_info"), "no metrics in: {body}");

    flood(w, &first, port, &scraper).await?;

    bind(&client, "stranger", READER).await?;
    wait_status(&first, port, "/metrics", Some(&stranger), 200).await?;

    let second = Https::trusting(&mount.swap("two")?)?;
    wait_status(&second, port, "/healthz", None, 200).await?;
    ensure!(first.get(port, "/healthz", None).await.is_err(), "the old certificate is still used");
    ensure!(program.program.runs(), "it ended");

    bind(&client, "late", READER).await?;
    program.path.refuse(true);
    program.path.cut();
    wait_status(&second, port, "/metrics", Some(&late), 503).await?;
    wait_status(&second, port, "/healthz", None, 200).await?;
    program.path.refuse(false);
    wait_status(&second, port, "/metrics", Some(&late), 200).await?;
    program.end().await
}

/// Sends three hundred unknown tokens, each once. Meanwhile the account with the right reads the metrics.
async fn flood(w: &World, client: &Https, port: u16, scraper: &str) -> Result<()> {
    let reviews = || -> Result<u64> {
        Ok(w.requests()?.counts.get(&format!("{} create tokenreviews", chart::CONTROLLER)).copied().unwrap_or_default())
    };
    let (before, start) = (reviews()?, Instant::now());
    for number in 0..300 {
        let token = format!("unknown-{number}");
        let (code, body) = wait_until(secs(10), "a bad token is answered", || async {
            let (code, body) = client.get(port, "/metrics", Some(&token)).await?;
            // For one second after a slow review the program asks for no review, and the response to an unknown token is 503.
            Ok(if code == 503 { Seen::NotYet(body) } else { Seen::Yes((code, body)) })
        })
        .await?;
        ensure!(code == 401 || code == 429, "a bad token was answered with {code}: {body}");
        if number % 50 == 0 {
            // An accepted token is cached for one minute, then reviewed again, perhaps in such a second.
            wait_status(client, port, "/metrics", Some(scraper), 200).await?;
            let (code, body) = client.get(port, "/healthz", None).await?;
            ensure!(code == 200, "health answers {code} during the flood: {body}");
        }
    }
    // 20 at once, 5 per second, and one review per minute for the scraper itself.
    let took = start.elapsed().as_secs();
    let (asked, most) = (reviews()? - before, 20 + 5 * (took + 1) + took / 60 + 1);
    ensure!(asked <= most, "{asked} of 300 bad tokens reached the API server in {took} s; at most {most} are allowed");
    ensure!(asked >= 20, "the audit log has only {asked} reviews: the count is wrong");
    Ok(())
}

async fn wait_status(client: &Https, port: u16, path: &str, token: Option<&str>, code: u16) -> Result<()> {
    wait_until(secs(40), &format!("GET {path} is answered with {code}"), || async {
        let (got, body) = client.get(port, path, token).await?;
        Ok(Seen::when(got == code, || format!("{got}: {}", body.trim())))
    })
    .await
}

/// Creates a ServiceAccount and returns its token.
pub(super) async fn account(client: &Client, name: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), objects::NAMESPACE);
    accounts.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}}))?;
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    answer.status.and_then(|status| status.token).context("the API server gave no token")
}

/// Binds the role [`READER`] (or another role) to an account, as an admin does.
pub(super) async fn bind(client: &Client, account: &str, role: &str) -> Result<()> {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": format!("{role}-{account}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": objects::NAMESPACE}],
    }))?;
    Api::<ClusterRoleBinding>::all(client.clone()).create(&PostParams::default(), &binding).await?;
    Ok(())
}

/// Gives the programs the chart's rights for `--secure-serving`, and waits until the authorizer knows them for these accounts.
pub(super) async fn grant_secure_serving(w: &World, accounts: &[&str]) -> Result<()> {
    let folder = kit::repository().join("charts/podgroup");
    let folder = folder.to_str().context("the clone's path is no UTF-8")?;
    let upgrade =
        ["upgrade", "podgroup", folder, "--namespace", chart::NAMESPACE, "--reset-then-reuse-values", "--set", "http.secure.enabled=true"];
    w.cluster().run("helm", &upgrade).await?;
    for account in accounts {
        for resource in ["tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"] {
            wait_allowed(&w.client(), account, resource).await?;
        }
    }
    Ok(())
}

/// Waits until the authorizer allows the reviews of this account.
async fn wait_allowed(client: &Client, account: &str, resource: &str) -> Result<()> {
    let (resource, group) = resource.split_once('.').context("a group")?;
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": chart::user(account),
        "resourceAttributes": {"group": group, "resource": resource, "verb": "create"},
    }}))?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    wait_until(secs(10), &format!("{account} may create {resource}"), || async {
        let status = reviews.create(&PostParams::default(), &review).await?.status;
        Ok(Seen::when(status.is_some_and(|status| status.allowed), || "it may not yet".to_owned()))
    })
    .await
}
