//! `helloworld controller` on the hub, `helloworld agent` on each cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    addon_helloworld::program().main()
}
