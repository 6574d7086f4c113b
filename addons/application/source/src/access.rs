//! How a server is reached, and who asks.

use secrecy::SecretString;

/// How a server is reached: credentials, CA certificates, and whether its certificate is checked.
#[derive(Clone, Debug, Default)]
pub struct SourceAccess {
    pub credentials: SourceCredentials,
    /// A PEM bundle. It is trusted besides the authorities that the system trusts; a server's own certificate may
    /// stand in it.
    pub ca_certificates: Option<String>,
    /// Any certificate is taken, and any host key. Whoever is on the way then reads and writes along.
    pub insecure_skip_verify: bool,
}

/// Who asks. What is secret is not shown when these are printed, and is wiped when they are dropped.
#[derive(Clone, Debug, Default)]
pub enum SourceCredentials {
    #[default]
    None,
    /// HTTP basic authentication; the password may be an access token.
    Basic { user: String, password: SecretString },
    /// A private key of SSH in its text form.
    SshKey {
        key: SecretString,
        passphrase: Option<SecretString>,
    },
    /// A client certificate, with the chain to its authority, and its private key, both in PEM.
    ClientCertificate { certificate: String, key: SecretString },
    /// The value of the `Authorization` header.
    AuthHeader(SecretString),
    /// A key of S3. The region counts where the endpoint is one of AWS.
    S3 {
        access_key_id: String,
        secret_access_key: SecretString,
        region: Option<String>,
    },
}
