//! `helloworldhelm controller` on the hub, `helloworldhelm agent` on each cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    addon_helloworldhelm::program().main()
}
