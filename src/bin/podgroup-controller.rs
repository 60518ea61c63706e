//! `podgroup-controller`: keeps the PodGroups that the pods of a cluster need.

use std::process::ExitCode;

use clap::Parser;
use podgroup::runtime::flags::ControllerFlags;

#[tokio::main]
async fn main() -> ExitCode {
    podgroup::controller::run(ControllerFlags::parse()).await
}
