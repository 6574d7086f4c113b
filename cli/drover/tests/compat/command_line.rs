//! What is refused, and in which words.

use crate::program::output;

#[test]
fn usage_errors_have_upstreams_wording_and_exit_codes() {
    for (words, said) in [
        (
            &["registration", "control"][..],
            "Error: unknown command \"control\" for \"registration\"\n",
        ),
        (&["work", "agent", "--foo"], "Error: unknown flag: --foo\n"),
        (
            &["placement", "controller", "--kubeconfig"],
            "Error: flag needs an argument: --kubeconfig\n",
        ),
        (&["registration", "agent"], "error: bootstrap-kubeconfig is required\n"),
        (
            &["work", "agent", "--workload-agent-workers=0"],
            "error: workload-agent-workers must be >= 1, got 0\n",
        ),
        (
            &["addon", "manager", "--tls-min-version=1"],
            "error: unknown tls version \"1\"\n",
        ),
        (
            &["registration-operator", "hub"],
            "error: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
        ),
        (
            &["/registration-operator", "klusterlet", "--deployment-replicas=many"],
            "Error: invalid argument \"many\" for \"--deployment-replicas\" flag: strconv.ParseInt: parsing \"many\": invalid syntax",
        ),
        (
            &[
                "/server",
                "grpc",
                "--server-config=/var/run/secrets/hub/grpc/config/config.yaml",
            ],
            "error: server grpc is not supported: hub and agents meet at the hub's Kubernetes API",
        ),
        // Before anything is asked of a server, which is not there.
        (
            &[
                "registration",
                "agent",
                "--registration-auth=awsirsa",
                "--bootstrap-kubeconfig=/nowhere",
            ],
            "error: --registration-auth=awsirsa is not supported: nothing is asked of AWS here",
        ),
        (
            &[
                "registration",
                "controller",
                "--enabled-registration-drivers=csr,grpc",
                "--kubeconfig=/nowhere",
            ],
            "error: --enabled-registration-drivers=grpc is not supported: hub and agents meet at the hub's Kubernetes API",
        ),
        (
            &[
                "work",
                "agent",
                "--workload-source-driver=mqtt",
                "--spoke-cluster-name=a",
            ],
            "error: --workload-source-driver=mqtt is not supported: hub and agents meet at the hub's Kubernetes API",
        ),
        (
            &["work", "manager"],
            "error: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
        ),
    ] {
        let output = output(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {stderr}");
        assert!(stderr.starts_with(said), "{words:?}: {stderr}");
    }
    let help = output(&["registration", "agent", "--help"]);
    let stdout = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.status.success() && stdout.contains("--bootstrap-kubeconfig <string>"),
        "{stdout}"
    );
    assert_eq!(
        output(&["registration"]).status.code(),
        Some(1),
        "no sub-command is a failure"
    );
    assert!(output(&["registration", "--version"]).status.success());
    assert!(output(&["registration", "controller", "--version"]).status.success());
}
