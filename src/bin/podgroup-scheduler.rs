//! The program `podgroup-scheduler`: parses the flags and runs the scheduler of the library.

use std::process::ExitCode;

use clap::Parser;
use podgroup::runtime::flags::SchedulerFlags;

#[tokio::main]
async fn main() -> ExitCode {
    podgroup::scheduler::main(SchedulerFlags::parse()).await
}
