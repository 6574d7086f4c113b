//! `helloworldhosted controller` on the hub, `helloworldhosted agent` on each cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    addon_helloworldhosted::program().main()
}
