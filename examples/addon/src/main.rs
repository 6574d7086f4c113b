//! Runs the add-on on a hub: `drover up`, and in another terminal
//! `cargo run -p example-addon -- controller --kubeconfig .drover/hub.kubeconfig`.

use std::process::ExitCode;

fn main() -> ExitCode {
    example_addon::program().main()
}
