//! Starts a second controller for a case: a process with the chart's account, its own token and its own proxy.
//!
//! The case owns it, and the world does not know it. So the case must end it with [`Replica::end`], which fails if it has ended by itself before.

use anyhow::Result;

use crate::programs::Program;
use crate::proxy::Proxy;
use crate::world::World;
use crate::{chart, kubeconfig};

/// A controller beside that of the world.
pub struct Replica {
    /// Its process.
    pub program: Program,
    /// The proxy between it and the API server.
    pub path: Proxy,
}

impl Replica {
    /// Starts a controller with these flags and variables. `label` names its log, and its identity in the Lease begins with it. Does not
    /// wait, because a standby replica is as ready as a leader.
    pub async fn start(world: &World, label: &str, flags: &[&str], environment: &[(String, String)]) -> Result<Self> {
        let cluster = world.cluster();
        let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
        let path = Proxy::start(server, world.seed).await?;
        let kubeconfig = chart::kubeconfig_as(cluster, chart::CONTROLLER, label, path.port(), &authority).await?;
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        // The programs use it as their name, as in a pod.
        let mut variables = vec![("HOSTNAME".to_owned(), label.to_owned())];
        variables.extend_from_slice(environment);
        let program = Program::start_as(cluster.scratch(), chart::CONTROLLER, label, &kubeconfig, &flags, &variables)?;
        Ok(Self { program, path })
    }

    /// Ends it with SIGTERM. Fails if it has ended by itself before, or does not end in time.
    pub async fn end(mut self) -> Result<()> {
        self.program.terminate().await
    }
}
