//! How an add-on's agent proves who it is.

use std::time::Duration;

use ocm_api::identity;

use crate::AddOnContext;

/// With what the agent of an add-on proves itself to the hub's API server.
///
/// What the cluster's agent is told, with `--addon-kubeclient-registration-auth` and
/// `--addon-token-expiration-seconds`, goes before it. Upstream's agents know nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A certificate, with the keys `tls.crt` and `tls.key` of the Secret.
    Certificate,
    /// A token of the ServiceAccount `<add-on>-agent`, with the key `token` of the Secret.
    Token {
        /// How long one lives; it is renewed when a fifth of that is left. At least ten minutes; `None` for a year.
        lifetime: Option<Duration>,
    },
}

/// One way in which an add-on's agent proves who it is. The agent on the cluster makes a key and asks for a
/// certificate, and keeps both in a Secret beside the add-on.
///
/// ```
/// use ocm_addon_sdk::{AddOnContext, Registration};
///
/// let place = AddOnContext::new("cluster1", "greeter");
/// let hub = Registration::kube_client();
/// assert_eq!(hub.signer(), "kubernetes.io/kube-apiserver-client");
/// assert_eq!(hub.subject(&place).groups[0], "system:open-cluster-management:cluster:cluster1:addon:greeter");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// As a client of the hub's API server. The Secret is `<add-on>-hub-kubeconfig`, with the keys `kubeconfig`,
    /// `tls.crt`, `tls.key` and `cluster-name`.
    KubeClient {
        /// Who it is; `None` for the [default identity](AgentSubject::agent). With a token it is always the add-on's
        /// ServiceAccount in the cluster's namespace.
        subject: Option<AgentSubject>,
        /// With what it proves that; `None` leaves it to the cluster's agent, which takes a certificate unless it is
        /// told otherwise.
        proof: Option<Proof>,
    },
    /// With a certificate of another signer. The Secret is `<add-on>-<signer with dashes for slashes>-client-cert`,
    /// with the keys `tls.crt`, `tls.key` and `cluster-name`.
    CustomSigner {
        /// The signer's name, a domain and a path.
        signer: String,
        /// Who it is; `None` for the [default identity](AgentSubject::agent).
        subject: Option<AgentSubject>,
        /// The authority that signs here; `None` when somebody else signs.
        signing: Option<Signing>,
    },
}

impl Registration {
    /// As a client of the hub's API server, with the default identity.
    pub fn kube_client() -> Self {
        Self::KubeClient {
            subject: None,
            proof: None,
        }
    }

    /// The same with this proof. Means nothing for another signer, which knows certificates only.
    ///
    /// ```
    /// use ocm_addon_sdk::{Proof, Registration};
    /// use std::time::Duration;
    ///
    /// let hourly = Proof::Token { lifetime: Some(Duration::from_secs(3600)) };
    /// assert_eq!(Registration::kube_client().with(hourly).proof(), Some(hourly));
    /// ```
    pub fn with(mut self, it: Proof) -> Self {
        if let Self::KubeClient { proof, .. } = &mut self {
            *proof = Some(it);
        }
        self
    }

    /// With what it is proved, if that was chosen.
    pub fn proof(&self) -> Option<Proof> {
        match self {
            Self::KubeClient { proof, .. } => *proof,
            Self::CustomSigner { .. } => None,
        }
    }

    /// With a certificate of another signer, which somebody else issues.
    pub fn custom_signer(signer: impl Into<String>) -> Self {
        Self::CustomSigner {
            signer: signer.into(),
            subject: None,
            signing: None,
        }
    }

    /// The same for this subject.
    pub fn for_subject(mut self, it: AgentSubject) -> Self {
        match &mut self {
            Self::KubeClient { subject, .. } | Self::CustomSigner { subject, .. } => *subject = Some(it),
        }
        self
    }

    /// The same, signed with this authority. Means nothing for a client of the hub's API server,
    /// whose certificates the hub signs itself.
    pub fn signed_by(mut self, it: Signing) -> Self {
        if let Self::CustomSigner { signing, .. } = &mut self {
            *signing = Some(it);
        }
        self
    }

    /// The signer's name.
    pub fn signer(&self) -> &str {
        match self {
            Self::KubeClient { .. } => identity::CLIENT_SIGNER,
            Self::CustomSigner { signer, .. } => signer,
        }
    }

    /// Whom a certificate is issued to at `place`.
    pub fn subject(&self, place: &AddOnContext) -> AgentSubject {
        let (Self::KubeClient { subject, .. } | Self::CustomSigner { subject, .. }) = self;
        subject
            .clone()
            .unwrap_or_else(|| AgentSubject::agent(place.cluster_name(), place.addon_name(), &place.agent_name()))
    }
}

/// Whom a certificate is issued to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSubject {
    /// The user, in the certificate its common name; when it is empty, the cluster's agent fills in that of the
    /// add-on's agent on its cluster, whose part of the name is the add-on's.
    pub user: String,
    /// The groups, in the certificate its organizations; when there is none, the cluster's agent fills
    /// in the group of the add-on on its cluster.
    pub groups: Vec<String>,
    /// The organizational units.
    pub organizational_units: Vec<String>,
}

impl AgentSubject {
    /// The default identity of an add-on's agent: user
    /// `system:open-cluster-management:cluster:<c>:addon:<a>:agent:<agent>`, in the group of the add-on on this cluster
    /// and in the group of the add-on on all clusters.
    pub fn agent(cluster: &str, addon: &str, agent: &str) -> Self {
        Self {
            user: identity::addon_user(cluster, addon, agent),
            groups: vec![
                identity::addon_cluster_group(cluster, addon),
                identity::addon_group(addon),
            ],
            organizational_units: Vec::new(),
        }
    }
}

/// A certificate authority that signs the certificates of a custom signer.
///
/// ```
/// use ocm_addon_sdk::{AgentSubject, Registration, Signing};
///
/// let metrics = AgentSubject { user: "metrics-writer".to_owned(), ..AgentSubject::default() };
/// let registration = Registration::custom_signer("example.com/metrics")
///     .for_subject(metrics)
///     .signed_by(Signing::with_secret("metrics-ca").in_namespace("monitoring"));
/// assert_eq!(registration.signer(), "example.com/metrics");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// The namespace of the Secret with the authority; `None` for the hub's own.
    pub namespace: Option<String>,
    /// The name of the Secret. Its keys are `tls.crt`, the authority's certificate, and `tls.key`:
    /// an RSA or EC key as PKCS#8, PKCS#1 or SEC1. Where they are not there, `ca.crt` and `ca.key` count.
    pub secret: String,
    /// How long a certificate lives at most. A request may ask for less, and none outlives the authority.
    pub lifetime: Duration,
}

impl Signing {
    /// The authority in this Secret of the hub's namespace, for certificates of a day.
    pub fn with_secret(secret: impl Into<String>) -> Self {
        Self {
            namespace: None,
            secret: secret.into(),
            lifetime: Duration::from_secs(24 * 60 * 60),
        }
    }

    /// The same, with the Secret in this namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The same, for certificates that live this long.
    pub fn living(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }
}
