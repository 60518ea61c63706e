//! The runner behind the verbs of the Makefile: cases, demo, measurements, and a cluster to try things out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::case::{self, Selection};
use e2e::cases;
use e2e::cluster::{Cluster, ClusterOptions};
use e2e::scratch::{self, Scratch};
use e2e::soak::{self, Plan};
use e2e::world::{Setup, World};
use e2e::{demo, flood, kit, load, say, takeover};

#[derive(Parser)]
#[command(about = "The cases on the real control plane, the demo, and clusters to play with")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs cases, each in a cluster of its own.
    Run {
        /// Only this case; may be repeated.
        #[arg(long = "case")]
        cases: Vec<String>,
        /// How often the whole list is run.
        #[arg(long, default_value_t = 1)]
        repeat: u32,
        /// How many cases run at once. With more than one on two cores, the times of a case depend on the others.
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// The seed of the random delays and faults, as a failed case printed it.
        #[arg(long)]
        seed: Option<u64>,
        /// Uses the stock scheduler in place of ours, to find out which program makes a case fail.
        #[arg(long)]
        stock_scheduler: bool,
        /// Lists the cases and runs none.
        #[arg(long)]
        list: bool,
    },
    /// Measures the time without a leader after a leader ends, and prints the table of docs/operations.md.
    Takeover {
        /// How often for each way to end.
        #[arg(long, default_value_t = 5)]
        repeat: u32,
    },
    /// Runs every case that runs under faults again and again, each time with the mix of another seed.
    Soak {
        /// No run begins after this number of minutes.
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// The seed of all seeds; random if not given.
        #[arg(long)]
        seed: Option<u64>,
        /// How many cases run at once.
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Only this case (`L1-faults`); may be repeated.
        #[arg(long = "case")]
        cases: Vec<String>,
    },
    /// Measures the controller under load, and counts its API requests.
    Load(load::controller::Sizes),
    /// Measures how fast pods are bound, compared with kube-scheduler and with a raw flood of bindings.
    Bench(load::scheduler::Sizes),
    /// Runs the demo on a cluster that stays.
    Demo {
        /// Removes the cluster at the end.
        #[arg(long)]
        down: bool,
    },
    /// Removes the demo's cluster.
    DemoDown,
    /// Starts a cluster that stays.
    ClusterUp {
        /// Also installs the chart and starts both programs.
        #[arg(long)]
        with_programs: bool,
        /// The folder, as an absolute path. An existing cluster there is ended and removed first.
        #[arg(long, default_value_os_t = cluster_folder())]
        folder: PathBuf,
    },
    /// Removes that cluster.
    ClusterDown {
        /// The folder.
        #[arg(long, default_value_os_t = cluster_folder())]
        folder: PathBuf,
    },
    /// Starts a cluster, prints its folder and waits, for the case that kills the runner.
    #[command(hide = true)]
    Hold,
    /// Opens as many connections to a local port as it can, and prints how many in each second, for the case of a flood.
    #[command(hide = true)]
    Flood {
        /// The port on 127.0.0.1.
        #[arg(long)]
        port: u16,
        /// For how long.
        #[arg(long)]
        seconds: u64,
        /// How many connections it keeps open at a time.
        #[arg(long)]
        open: usize,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = runtime().and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                outcome = act(arguments.verb) => outcome,
                // Returning drops all worlds and their clusters; otherwise their reapers would remove them.
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted; everything that was started is removed")),
            }
        })
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say::line(format!("error: {}", say::brief(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Returns a runtime with more threads than processors: some tasks block theirs for a moment (the observer reads a log, or waits for its
/// oracle), and the waits of other cases must go on meanwhile.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(16).enable_all().build()?)
}

async fn act(verb: Verb) -> Result<bool> {
    match verb {
        Verb::Run { list: true, .. } => {
            cases::table().iter().for_each(|case| {
                say::line(format!("{:<24} {}{}", case.id, case.title, if case.only_in_soak { " (in the soak)" } else { "" }))
            });
            Ok(true)
        }
        Verb::Run { cases, repeat, jobs, seed, stock_scheduler, list: false } => {
            case::run(&cases::table(), &Selection { cases, repeat, jobs, seed, stock_places: stock_scheduler }).await
        }
        Verb::Takeover { repeat } => takeover::measure(repeat).await.map(|()| true),
        Verb::Soak { minutes, seed, jobs, cases } => {
            let seed = seed.unwrap_or_else(scratch::random);
            let time = Duration::from_secs(minutes.saturating_mul(60));
            soak::run(&cases::table(), &Plan { time, seed, jobs, cases }).await
        }
        Verb::Load(sizes) => load::controller::run(sizes).await,
        Verb::Bench(sizes) => load::scheduler::run(sizes).await,
        Verb::Demo { down } => demo::play(!down).await,
        Verb::DemoDown => demo::end().map(|()| true),
        Verb::ClusterUp { with_programs, folder } => cluster_up(with_programs, folder).await.map(|()| true),
        Verb::ClusterDown { folder } => scratch::remove(&folder).map(|()| true),
        Verb::Hold => hold().await.map(|()| true),
        Verb::Flood { port, seconds, open } => flood::run(port, Duration::from_secs(seconds), open).map(|()| true),
    }
}

fn cluster_folder() -> PathBuf {
    kit::repository().join(".cluster/up")
}

async fn cluster_up(with_programs: bool, folder: PathBuf) -> Result<()> {
    let setup = Setup { programs: with_programs, no_proxies: true, no_oracle: true, ..Setup::default() };
    let mut world = World::bare(Scratch::at(folder)?, "up", &setup, 0).await?;
    world.install(&setup).await?;
    let kubeconfig = world.cluster().kubeconfig().display().to_string();
    // The programs are no pods here, so the plugin has to be told where the scheduler is.
    let scheduler = world.scheduler().map(|program| program.port()).ok().filter(|_| with_programs);
    world.keep()?;
    if let Some(port) = scheduler {
        say::line(format!("# for kubectl podgroup: --scheduler-url http://127.0.0.1:{port}"));
    }
    say::line(format!("export KUBECONFIG={kubeconfig}"));
    Ok(())
}

async fn hold() -> Result<()> {
    let cluster = Cluster::start(ClusterOptions { name: "held".to_owned(), ..ClusterOptions::default() }).await?;
    say::line(cluster.scratch().folder().display().to_string());
    std::future::pending().await
}
