//! The scheduler program: flags, and the rest is in the library.

use std::process::ExitCode;

use clap::Parser;
use podgroup::runtime::flags::SchedulerFlags;

#[tokio::main]
async fn main() -> ExitCode {
    podgroup::scheduler::main(SchedulerFlags::parse()).await
}
