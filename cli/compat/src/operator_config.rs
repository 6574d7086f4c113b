//! The file of `--config`: where to serve and how to elect a leader. A flag that was typed goes before it.
//! Upstream: openshift/api `operator/v1alpha1` `GenericOperatorConfig`.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

/// What of it means something here.
#[derive(Debug, Default)]
pub struct OperatorConfig {
    /// `servingInfo.bindAddress`.
    pub listen: Option<String>,
    /// `servingInfo.certFile` and `servingInfo.keyFile`.
    pub certificate: Option<(String, String)>,
    /// `servingInfo.minTLSVersion`.
    pub tls_min_version: Option<String>,
    /// `servingInfo.cipherSuites`.
    pub tls_cipher_suites: Option<String>,
    /// `leaderElection.disable`.
    pub is_alone: bool,
    /// `leaderElection.namespace`.
    pub lease_namespace: Option<String>,
    /// `leaderElection.name`.
    pub lease_name: Option<String>,
    /// `leaderElection.leaseDuration`.
    pub lease_duration: Option<Duration>,
    /// `leaderElection.renewDeadline`.
    pub renew_deadline: Option<Duration>,
    /// `leaderElection.retryPeriod`.
    pub retry_period: Option<Duration>,
}

impl OperatorConfig {
    /// Reads the file; without one nothing is said.
    pub fn read(path: Option<&str>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text =
            std::fs::read_to_string(Path::new(path)).with_context(|| format!("could not read --config {path}"))?;
        Self::of(&text).with_context(|| format!("--config {path}"))
    }

    fn of(text: &str) -> Result<Self> {
        let file: Value = serde_saphyr::from_str(text).map_err(|error| anyhow!("it is no YAML: {error}"))?;
        let kind = file["kind"].as_str().unwrap_or("GenericOperatorConfig");
        if kind != "GenericOperatorConfig" {
            return Err(anyhow!("it is a {kind}, not a GenericOperatorConfig"));
        }
        let (serving, election) = (&file["servingInfo"], &file["leaderElection"]);
        let said = |of: &Value, field: &str| of[field].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
        let time = |field: &str| {
            said(election, field)
                .map(|it| super::read::duration(&it).map_err(|why| anyhow!("leaderElection.{field}: {why}")))
                .transpose()
        };
        let suites = serving["cipherSuites"].as_array().map(|all| {
            let names = all.iter().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(",")
        });
        Ok(Self {
            listen: said(serving, "bindAddress"),
            certificate: said(serving, "certFile").zip(said(serving, "keyFile")),
            tls_min_version: said(serving, "minTLSVersion"),
            tls_cipher_suites: suites.filter(|it| !it.is_empty()),
            is_alone: election["disable"] == true,
            lease_namespace: said(election, "namespace"),
            lease_name: said(election, "name"),
            lease_duration: time("leaseDuration")?,
            renew_deadline: time("renewDeadline")?,
            retry_period: time("retryPeriod")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_where_to_serve_and_how_to_elect() {
        let it = OperatorConfig::of(
            "{kind: GenericOperatorConfig, servingInfo: {bindAddress: '127.0.0.1:1', certFile: a, keyFile: b}, \
             leaderElection: {disable: true, leaseDuration: 10s}}",
        )
        .unwrap();
        assert_eq!(it.listen.as_deref(), Some("127.0.0.1:1"));
        assert_eq!(it.certificate, Some(("a".to_owned(), "b".to_owned())));
        assert!(it.is_alone);
        assert_eq!(it.lease_duration, Some(Duration::from_secs(10)));
        assert_eq!(it.retry_period, None);
    }

    #[test]
    fn a_file_that_is_something_else_is_refused() {
        assert!(OperatorConfig::of("{kind: Pod}").is_err());
        assert!(OperatorConfig::of("{leaderElection: {leaseDuration: 10}}").is_ok());
        assert!(OperatorConfig::of("{leaderElection: {leaseDuration: ten}}").is_err());
    }
}
