//! Upstream's ways of proving who a cluster is, and of carrying works, that are not here: each is refused at the start,
//! with the flag, the reason and what to use.

use anyhow::{Result, bail};

/// Checks the driver that a flag names, if it names one, against the one that is here.
///
/// # Errors
/// When it is another.
pub fn check(flag: &str, driver: Option<&str>, here: &str) -> Result<()> {
    let Some(driver) = driver.filter(|it| !it.is_empty() && *it != here) else {
        return Ok(());
    };
    match driver {
        "grpc" => bail!(
            "--{flag}={driver} is not supported: hub and agents meet at the hub's Kubernetes API, and there is no gRPC server \
             between them; use {here}, with a kubeconfig of the hub's API that the agent can reach"
        ),
        "mqtt" => bail!(
            "--{flag}={driver} is not supported: hub and agents meet at the hub's Kubernetes API, and no broker is between \
             them; use {here}, with a kubeconfig of the hub's API that the agent can reach"
        ),
        "awsirsa" => bail!(
            "--{flag}={driver} is not supported: nothing is asked of AWS here, neither IAM roles nor access entries; use {here}, \
             on a hub whose API server signs client certificates (kubernetes.io/kube-apiserver-client), which that of EKS does not"
        ),
        other => bail!("--{flag}={other} is not supported: there is {here}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_and_default_drivers_are_accepted() {
        assert!(check("registration-auth", None, "csr").is_ok());
        assert!(check("registration-auth", Some(""), "csr").is_ok());
        assert!(check("registration-auth", Some("csr"), "csr").is_ok());
    }

    #[test]
    fn an_unsupported_driver_is_refused_with_flag_reason_and_alternative() {
        for (driver, reason) in [
            ("grpc", "no gRPC server"),
            ("awsirsa", "neither IAM roles"),
            ("x", "there is csr"),
        ] {
            let said = check("registration-auth", Some(driver), "csr").unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("--registration-auth={driver} is not supported: ")),
                "{said}"
            );
            assert!(said.contains(reason) && said.contains("csr"), "{said}");
        }
    }
}
