//! How does a case get a second controller? One more process with the chart's account, a token of its own and a proxy of its own.
//!
//! It is the case's: the world knows nothing of it, so the case ends it ([`Replica::end`]), which fails if it had ended by itself before.

use anyhow::Result;

use crate::programs::Program;
use crate::proxy::Proxy;
use crate::world::World;
use crate::{chart, kubeconfig};

/// A controller beside the world's own.
pub struct Replica {
    /// Its process.
    pub program: Program,
    /// What lies between it and the API server.
    pub path: Proxy,
}

impl Replica {
    /// Starts one with these flags and variables. `label` names its log, and its lease's holder begins with it. Does not wait: one that waits for the
    /// lease is ready like one that leads.
    pub async fn start(world: &World, label: &str, flags: &[&str], environment: &[(String, String)]) -> Result<Self> {
        let cluster = world.cluster();
        let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
        let path = Proxy::start(server, world.seed).await?;
        let kubeconfig = chart::kubeconfig_as(cluster, chart::CONTROLLER, label, path.port(), &authority).await?;
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        // The programs name themselves by it, as in a pod.
        let mut variables = vec![("HOSTNAME".to_owned(), label.to_owned())];
        variables.extend_from_slice(environment);
        let program = Program::start_as(cluster.scratch(), chart::CONTROLLER, label, &kubeconfig, &flags, &variables)?;
        Ok(Self { program, path })
    }

    /// Ends it with SIGTERM; an error if it ended before by itself, or not within two seconds.
    pub async fn end(mut self) -> Result<()> {
        self.program.terminate().await
    }
}
