//! The binary as it is typed: arguments, exit codes and the sentences of failure, with no server behind it.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs the binary in an empty home, so that no kubeconfig of the machine is found.
fn drover(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(arguments)
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .output()
        .expect("the binary runs")
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The exit code and standard error of a command that must fail.
fn failure(arguments: &[&str]) -> (i32, String) {
    let home = home();
    let output = drover(home.path(), arguments);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "",
        "{arguments:?} printed something"
    );
    (
        output.status.code().expect("an exit code"),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn usage_errors_exit_with_2_and_failures_with_1() {
    for arguments in [
        &["gett"][..],
        &["get", "clusters", "-o", "xml"],
        &["accept"],
        &["create", "work", "w", "--clusters", "a"],
        &["why", "pod/a"],
        &["up", "--clusters", "501"],
        &["up", "--no-node", "--addons", "helloworld"],
        &["up", "--no-node", "--node-image-map", "a=b"],
        &[
            "join",
            "--no-node",
            "--cluster-name",
            "a",
            "--bootstrap-kubeconfig",
            "f",
        ],
        &["--example-in-pod", "/pod", "kube", "up"],
        &[
            "join",
            "--embedded",
            "--cluster-name",
            "a",
            "--bootstrap-kubeconfig",
            "f",
            "--kubeconfig",
            "g",
        ],
        &["why", "manifestwork/a"],
        &["completions", "tcsh"],
    ] {
        assert_eq!(failure(arguments).0, 2, "{arguments:?}");
    }
    for arguments in [
        &["get", "clusters"][..],
        &["accept", "--clusters", "A"],
        &["--log", "[", "get", "works"],
    ] {
        assert_eq!(failure(arguments).0, 1, "{arguments:?}");
    }
}

#[test]
fn an_error_is_one_sentence_with_object_and_fix() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["get", "clusters"],
            "error: no kubeconfig found: pass --kubeconfig FILE, set KUBECONFIG, or run `drover up` in this directory, \
             which leaves one in .drover/hub.kubeconfig\n",
        ),
        (
            &["get", "clusters", "--kubeconfig", "missing"],
            "error: there is no kubeconfig at missing: check the path given with --kubeconfig or KUBECONFIG\n",
        ),
        (
            &["accept", "--clusters", "cluster1,Cluster_2"],
            "error: \"Cluster_2\" cannot name a cluster: it contains 'C'; use up to 63 lower-case letters, digits and '-', \
             starting and ending with a letter or digit, for example cluster1\n",
        ),
        (
            &["create", "work", "w", "-f", "missing.yaml", "--clusters", "cluster1"],
            "error: could not read missing.yaml: No such file or directory (os error 2)\n",
        ),
        (
            &["create", "work", "W", "-f", "-", "--clusters", "cluster1"],
            "error: \"W\" cannot name a work: use lower-case letters, digits, '-' and '.', starting and ending with a letter or digit\n",
        ),
    ];
    for (arguments, wanted) in cases {
        assert_eq!(failure(arguments), (1, wanted.to_owned()), "{arguments:?}");
    }
}

#[test]
fn an_unreachable_hub_is_reported_with_its_address() {
    let home = home();
    // A port that was free a moment ago and that nothing listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|it| it.local_addr())
        .expect("a free port")
        .port();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: hub\n\
         clusters: [{{name: hub, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n\
         contexts: [{{name: hub, context: {{cluster: hub, user: admin}}}}]\n\
         users: [{{name: admin, user: {{token: abc}}}}]\n"
    );
    std::fs::write(home.path().join("hub.kubeconfig"), kubeconfig).expect("written");
    let output = drover(home.path(), &["get", "clusters", "--kubeconfig", "hub.kubeconfig"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "error: could not list the managed clusters: nothing listens at https://127.0.0.1:{port}, the server that \
             hub.kubeconfig names; start it, or choose another kubeconfig with --kubeconfig\n"
        )
    );
    let output = drover(
        home.path(),
        &[
            "get",
            "clusters",
            "--kubeconfig",
            "hub.kubeconfig",
            "--context",
            "other",
        ],
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: hub.kubeconfig has no context named \"other\"; it has hub\n"
    );
    let output = drover(home.path(), &["version", "--kubeconfig", "hub.kubeconfig"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("\nServer Version: unknown: could not ask the server: nothing listens at "),
        "{text}"
    );
}

#[test]
fn version_is_printed_with_no_kubeconfig_at_all() {
    let home = home();
    let output = drover(home.path(), &["version"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("Client Version: drover {} (OCM v1.3)\n", env!("CARGO_PKG_VERSION"))
    );
    let output = drover(home.path(), &["version", "-o", "json", "--client"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["clientVersion"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["serverVersion"], serde_json::Value::Null);
}

#[test]
fn completions_are_written_for_every_shell() {
    let home = home();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = drover(home.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("drover"), "{shell}");
    }
}

#[test]
fn every_command_has_help() {
    let home = home();
    for command in [
        &["--help"][..],
        &["get", "--help"],
        &["get", "clusters", "--help"],
        &["get", "works", "--help"],
        &["create", "work", "--help"],
        &["delete", "work", "--help"],
        &["accept", "--help"],
        &["why", "--help"],
        &["version", "--help"],
        &["completions", "--help"],
    ] {
        let output = drover(home.path(), command);
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("Usage: drover"),
            "{command:?}"
        );
    }
}

#[test]
fn a_policy_that_is_not_compliant_exits_with_2() {
    let home = home();
    let policy = |kind: &str| {
        format!(
            "apiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\nmetadata: {{name: p}}\nspec:\n  \
             object-templates:\n  - complianceType: {kind}\n    objectDefinition: {{apiVersion: v1, kind: Namespace, metadata: \
             {{name: default}}}}\n"
        )
    };
    for (kind, code, state) in [("musthave", 0, "Compliant; n"), ("mustnothave", 2, "NonCompliant; v")] {
        std::fs::write(home.path().join("policy.yaml"), policy(kind)).unwrap();
        for program in [&["policy", "dryrun"][..], &["dryrun"]] {
            let output = drover(home.path(), &[program, &["-p", "policy.yaml"]].concat());
            assert_eq!(output.status.code(), Some(code), "{program:?}");
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(out.contains(&format!("# Compliance messages:\n{state}")), "{out}");
        }
    }
    let (code, error) = failure(&["policy", "dryrun", "-p", "nothing.yaml"]);
    assert_eq!(code, 1);
    assert_eq!(
        error,
        "Error: unable to read input policy: open nothing.yaml: no such file or directory\n"
    );
    assert_eq!(failure(&["policy", "dryrun"]).0, 1);
}
