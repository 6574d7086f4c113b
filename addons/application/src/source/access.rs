//! How the server of a Channel is reached, by its Secret and ConfigMap.

use std::fmt;

use application_source::{SourceAccess, SourceCredentials};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
    values::settings::parse_bool,
};

/// The access of a Channel, or of a chart.
///
/// # Errors
/// When the Secret has half of a login: which key is missing.
pub(super) fn of(
    secret: Option<&Secret>,
    settings: Option<&ConfigMap>,
    insecure: bool,
) -> Result<SourceAccess, String> {
    let setting = |key: &str| settings.and_then(|it| it.data.as_ref()).and_then(|it| it.get(key));
    let skips = setting("insecureSkipVerify")
        .and_then(|it| parse_bool(it))
        .unwrap_or_default();
    Ok(SourceAccess {
        credentials: match secret {
            None => SourceCredentials::None,
            Some(secret) => credentials(secret)?,
        },
        ca_certificates: setting("caCerts").filter(|it| !it.trim().is_empty()).cloned(),
        insecure_skip_verify: insecure || skips,
    })
}

fn credentials(secret: &Secret) -> Result<SourceCredentials, String> {
    let text = |key: &str| {
        let value = secret.data.as_ref()?.get(key)?;
        let text = String::from_utf8(value.0.clone()).ok()?;
        // Secrets that are made of files end with a line.
        Some(text.trim_end_matches(['\n', '\r']).to_owned()).filter(|it| !it.is_empty())
    };
    let needs = |key: &str| text(key).ok_or_else(|| Missing(secret, key.to_owned()).to_string());
    if text("AccessKeyID").is_some() || text("SecretAccessKey").is_some() {
        return Ok(SourceCredentials::S3 {
            access_key_id: needs("AccessKeyID")?,
            secret_access_key: needs("SecretAccessKey")?.into(),
            region: text("Region"),
        });
    }
    if let Some(key) = text("sshKey") {
        return Ok(SourceCredentials::SshKey {
            // A key without its last line end is none.
            key: format!("{key}\n").into(),
            passphrase: text("passphrase").map(Into::into),
        });
    }
    if text("clientCert").is_some() || text("clientKey").is_some() {
        return Ok(SourceCredentials::ClientCertificate {
            certificate: needs("clientCert")?,
            key: needs("clientKey")?.into(),
        });
    }
    if let Some(header) = text("authHeader") {
        return Ok(SourceCredentials::AuthHeader(header.into()));
    }
    let Some(password) = text("accessToken").or_else(|| text("password")) else {
        return match text("user") {
            None => Ok(SourceCredentials::None),
            Some(_) => Err(Missing(secret, "accessToken or password".to_owned()).to_string()),
        };
    };
    Ok(SourceCredentials::Basic {
        user: needs("user")?,
        password: password.into(),
    })
}

struct Missing<'a>(&'a Secret, String);

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.0.metadata;
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        write!(
            f,
            "Secret {}/{} has no {}",
            text(&metadata.namespace),
            text(&metadata.name),
            self.1
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_data(data: Value) -> Result<SourceAccess, String> {
        let secret = json!({"metadata": {"name": "s", "namespace": "n"}, "data": {}});
        let mut secret: Secret = serde_json::from_value(secret).unwrap();
        let data = data.as_object().unwrap().iter();
        let data = data.map(|(key, it)| {
            let bytes = it.as_str().unwrap().as_bytes().to_vec();
            (key.clone(), ocm_addon_sdk::k8s_openapi::ByteString(bytes))
        });
        secret.data = Some(data.collect());
        of(Some(&secret), None, false)
    }

    #[test]
    fn each_login_is_told_by_its_keys() {
        let printed = |data: Value| format!("{:?}", of_data(data).unwrap().credentials);
        let basic = printed(json!({"user": "me", "accessToken": "hidden\n"}));
        assert!(basic.starts_with("Basic") && !basic.contains("hidden"), "{basic}");
        assert!(printed(json!({"user": "me", "password": "x"})).starts_with("Basic"));
        assert!(printed(json!({"sshKey": "x"})).starts_with("SshKey"));
        assert!(printed(json!({"clientCert": "x", "clientKey": "y"})).starts_with("ClientCertificate"));
        assert!(printed(json!({"AccessKeyID": "a", "SecretAccessKey": "b"})).starts_with("S3"));
        assert_eq!(printed(json!({})), "None");
    }

    #[test]
    fn half_a_login_is_refused_by_name() {
        let refused = |data: Value| of_data(data).unwrap_err();
        assert_eq!(
            refused(json!({"user": "me"})),
            "Secret n/s has no accessToken or password"
        );
        assert_eq!(
            refused(json!({"AccessKeyID": "a"})),
            "Secret n/s has no SecretAccessKey"
        );
        assert_eq!(refused(json!({"clientKey": "a"})), "Secret n/s has no clientCert");
    }
}
