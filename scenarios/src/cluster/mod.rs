//! The programs of a cluster that are not ours: the kubelets, and the controllers of kube-controller-manager.
//!
//! They see each change of an object a moment later, and write what the real ones would: [`kubelet`] runs bound pods and ends deleted ones,
//! [`workloads`] creates and deletes the pods of owners. Their rules are the simplest that the programs depend on. What happens between two
//! writes of the real ones is shown on the real control plane.

pub mod kubelet;
pub mod workloads;

use std::time::Duration;

use tokio::time::Instant;

use crate::server::Server;

/// How long it takes until they act on a change.
const REACTION: Duration = Duration::from_millis(20);

/// Runs all of them, for ever.
pub async fn run(server: Server) {
    let mut kubelet = kubelet::Kubelet::default();
    loop {
        // A change while they act leaves its mark, and is seen at once after it.
        let next = server.write(|store| {
            workloads::act(store);
            kubelet.act(store, Instant::now())
        });
        let changed = server.changed.clone();
        let act_again = async {
            changed.notified().await;
            tokio::time::sleep(REACTION).await;
        };
        match next {
            Some(at) => tokio::select! {
                () = act_again => {}
                () = tokio::time::sleep_until(at) => {}
            },
            None => act_again.await,
        }
    }
}
