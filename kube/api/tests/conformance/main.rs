//! The numbered conformance suite: what a Kubernetes API server has to do, asked over a socket with TLS.
//!
//! `cargo test -p kube-api --test conformance` asks the embedded API; words after `--` choose numbers (`44`, `27.5`) or
//! parts of behaviours. `DROVER_TEST_CLUSTER=$PWD/kubeconfig` asks any other API server instead: each check works in a
//! namespace and an API group of its own and removes what it made. Checks that need the inside of the embedded server
//! say so and are skipped there. `DROVER_WRITE_CONFORMANCE=1` writes `docs/reference/conformance.md` from the run; an
//! ordinary run checks that its numbers and behaviours are those of the suite.

mod check;
mod client;
mod cluster;
mod cx;
mod known;
mod proto;
mod report;
mod run;
mod sections;
mod webhook;

fn main() -> std::process::ExitCode {
    run::main()
}
