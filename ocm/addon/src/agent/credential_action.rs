//! What to do next about one credential of an add-on's agent. Plain functions: the caller brings time, chance,
//! key and token.

use std::sync::Arc;

use credential::{
    certificate::Chain,
    csr::{CertificateSubject, KeyAndRequest},
    enrol::{self, CertificateDecision, Pending},
    hub_secret::{self, Data, TLS_CRT, TLS_KEY, TOKEN},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use ocm_api::{
    addon::KubeClientDriver,
    condition::{ConditionUpdate, wanted},
    conditions::managed_cluster_add_on::{self, agent_reason as reason},
};

use super::{
    registration::AddOnRegistration,
    token::{self, Claims},
};

/// Everything that is known about one credential, keys included: it is not to be printed.
#[derive(Clone)]
pub struct CredentialState {
    /// What it is to be.
    pub registration: AddOnRegistration,
    /// The Secret it is in.
    pub secret: Option<Arc<Secret>>,
    /// What the Secret must hold besides the proof itself.
    pub additional: Data,
    /// The request under way.
    pub pending: Option<RequestUnderWay>,
    /// How many requests of this add-on are on the hub; `None` when nobody has looked.
    pub requests: Option<usize>,
    /// A key that nothing uses yet, should one be needed.
    pub fresh: Option<KeyAndRequest>,
    /// The uid of the ServiceAccount whose token it takes; `None` while the hub has not made it.
    pub account: Option<String>,
    /// A token that was asked for because it is needed, or why there is none.
    pub token: Option<Result<String, String>>,
    /// Whether the Secret's namespace is missing; `None` when nobody has looked.
    pub namespace_is_missing: Option<bool>,
    /// What was decided when it was last found good.
    pub known_good: Option<Arc<GoodCredential>>,
    /// What could not be looked at, though it has to be known before anything is done.
    pub hindrance: Option<String>,
}

/// A credential that was found good. Most runs of an add-on are about something else, and parse no certificate.
pub struct GoodCredential {
    /// The Secret it is in.
    pub secret: Arc<Secret>,
    /// What it is to be.
    pub registration: AddOnRegistration,
    /// The uid of the ServiceAccount.
    pub account: Option<String>,
    /// That it is to be kept.
    pub action: CredentialAction,
}

impl GoodCredential {
    // The decision, if it was made of the same and its time is not over.
    fn still(&self, credential: &CredentialState, now: Timestamp) -> Option<CredentialAction> {
        let same = credential
            .secret
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, &self.secret))
            && credential.registration == self.registration
            && credential.account == self.account;
        let CredentialAction::Keep { until, .. } = &self.action else {
            return None;
        };
        (same && now < *until).then(|| self.action.clone())
    }
}

/// A request under way, and for what it was made.
#[derive(Clone)]
pub struct RequestUnderWay {
    /// The request and its key.
    pub pending: Pending,
    /// For whom.
    pub subject: CertificateSubject,
    /// Of whom it was asked.
    pub signer: String,
}

/// What to do.
#[derive(Clone, PartialEq, Eq)]
pub enum CredentialAction {
    /// All is well until then.
    Keep {
        /// When to renew it.
        until: Timestamp,
        /// What to say about it.
        said: ConditionUpdate,
    },
    /// See which requests are on the hub, then decide again.
    LookAtRequests,
    /// See whether the Secret's namespace is there, then decide again.
    LookForNamespace,
    /// Make a key to ask with, then decide again.
    MakeKey,
    /// Ask the hub for a certificate.
    Ask {
        /// Why.
        why: String,
    },
    /// Ask the hub for a token, then decide again.
    AskToken {
        /// Why.
        why: String,
    },
    /// Something else has to happen first.
    Wait {
        /// What.
        why: String,
    },
    /// It is not known what to do, because something could not be looked at.
    Hindered {
        /// What, and why not.
        why: String,
    },
    /// The credential is there, the namespace for its Secret is not.
    WaitForNamespace,
    /// Write this into the Secret.
    Save {
        /// The proof and what goes with it.
        data: Data,
        /// What to say about it.
        said: ConditionUpdate,
    },
    /// Forget the request and look again.
    Forget {
        /// Why.
        why: String,
    },
    /// It does not work.
    Fail {
        /// What to say about it.
        said: ConditionUpdate,
        /// Whether trying again may help, though nobody has changed anything.
        again: bool,
    },
}

impl CredentialAction {
    /// Whether it only finds out what has to be known to decide.
    pub fn is_question(&self) -> bool {
        matches!(
            self,
            Self::LookAtRequests | Self::LookForNamespace | Self::MakeKey | Self::AskToken { .. }
        )
    }
}

impl CredentialState {
    /// Decides. `threshold` is the fraction of its life that a certificate has left when it is renewed.
    pub fn next(&self, threshold: f64, now: Timestamp) -> CredentialAction {
        let good = self.known_good.as_ref();
        if let Some(keep) = good.and_then(|it| it.still(self, now)) {
            return keep;
        }
        let next = match self.registration.driver {
            KubeClientDriver::Csr => self.next_certificate(threshold, now),
            KubeClientDriver::Token => self.next_token(now),
        };
        match (next, &self.hindrance) {
            (CredentialAction::Keep { until, said }, _) => CredentialAction::Keep { until, said },
            (_, Some(why)) => CredentialAction::Hindered { why: why.clone() },
            (next, None) => self.question_before(&next).unwrap_or(next),
        }
    }

    // What has to be known before this is done: a credential that is as it should be costs no request.
    fn question_before(&self, next: &CredentialAction) -> Option<CredentialAction> {
        let is_certificate = self.registration.driver == KubeClientDriver::Csr;
        let asks = matches!(next, CredentialAction::Ask { .. });
        if is_certificate && self.requests.is_none() && (asks || self.pending.is_some()) {
            return Some(CredentialAction::LookAtRequests);
        }
        // A token that could not be kept would be asked for in vain.
        let writes = matches!(next, CredentialAction::Save { .. } | CredentialAction::AskToken { .. });
        match self.namespace_is_missing {
            None if writes && self.secret.is_none() => Some(CredentialAction::LookForNamespace),
            Some(true) if writes => Some(CredentialAction::WaitForNamespace),
            _ => (asks && self.fresh.is_none()).then_some(CredentialAction::MakeKey),
        }
    }

    /// What the step that makes its key is on.
    pub fn key_to_make(&self) -> String {
        format!("key for Secret {}", self.registration.secret)
    }

    fn next_certificate(&self, threshold: f64, now: Timestamp) -> CredentialAction {
        if let Some(asked) = &self.pending
            && (asked.subject != self.registration.subject || asked.signer != self.registration.signer)
        {
            return CredentialAction::Forget {
                why: format!(
                    "the request {} is for somebody the add-on no longer is",
                    asked.pending.name
                ),
            };
        }
        let seen = enrol::Seen {
            now,
            threshold,
            subject: self.registration.subject.clone(),
            additional: self.additional.clone(),
            data: self.data(),
            pending: self.pending.as_ref().map(|it| it.pending.clone()),
            requests: self.requests.unwrap_or(0),
        };
        match enrol::decide(&seen) {
            CertificateDecision::Keep { until } => match Chain::parse(&seen.data[TLS_CRT]) {
                Ok(chain) => CredentialAction::Keep {
                    until,
                    said: rotated(chain.not_before, chain.not_after),
                },
                Err(error) => CredentialAction::Ask { why: error.to_string() },
            },
            CertificateDecision::Create { why } => CredentialAction::Ask { why },
            CertificateDecision::Wait { why } => CredentialAction::Wait { why },
            CertificateDecision::Save {
                data,
                not_before,
                not_after,
            } => CredentialAction::Save {
                data,
                said: rotated(not_before, not_after),
            },
            CertificateDecision::Reset { why } => CredentialAction::Forget { why },
            CertificateDecision::Refuse { why } => CredentialAction::Fail {
                said: not_rotated(why),
                again: self.pending.is_none(),
            },
        }
    }

    fn next_token(&self, now: Timestamp) -> CredentialAction {
        let Some(uid) = &self.account else {
            return CredentialAction::Wait {
                why: "the hub has not made the add-on's ServiceAccount yet".to_owned(),
            };
        };
        let data = self.data();
        let held = data.get(TOKEN).map(Vec::as_slice);
        let has_changed = self.additional.iter().any(|(key, value)| data.get(key) != Some(value));
        let reason = token::reason_to_ask(held, uid, now);
        if let (None, Some(token)) = (&reason, held)
            && let Some(claims) = Claims::parse(token)
        {
            return match has_changed {
                false => CredentialAction::Keep {
                    until: claims.renew_at(),
                    said: refreshed(claims.expires_at),
                },
                true => self.save_token(token.to_vec(), claims.expires_at),
            };
        }
        match &self.token {
            None => CredentialAction::AskToken {
                why: reason.unwrap_or_default(),
            },
            Some(Ok(token)) => match Claims::parse(token.as_bytes()) {
                Some(claims) => self.save_token(token.clone().into_bytes(), claims.expires_at),
                None => CredentialAction::Fail {
                    said: no_token("the hub has issued a token that is none of a ServiceAccount"),
                    again: true,
                },
            },
            Some(Err(error)) => CredentialAction::Fail {
                said: no_token(error),
                again: true,
            },
        }
    }

    fn save_token(&self, token: Vec<u8>, expires_at: Timestamp) -> CredentialAction {
        let mut data = self.additional.clone();
        data.insert(TOKEN.to_owned(), token);
        CredentialAction::Save {
            data,
            said: refreshed(expires_at),
        }
    }

    /// What the Secret holds at present.
    pub fn data(&self) -> Data {
        self.secret.as_deref().map(hub_secret::data).unwrap_or_default()
    }

    /// What the Secret is to hold in place of that: what somebody else has put there stays,
    /// a proof of another kind goes.
    pub fn replaced(&self, data: &Data) -> Data {
        let mut all = self.data();
        all.retain(|key, _| ![TLS_CRT, TLS_KEY, TOKEN].contains(&key.as_str()));
        all.extend(data.clone());
        all
    }
}

fn rotated(not_before: Timestamp, not_after: Timestamp) -> ConditionUpdate {
    wanted(
        managed_cluster_add_on::CERTIFICATE_ROTATED,
        true,
        reason::CERTIFICATE_UPDATED,
        enrol::rotated(not_before, not_after),
    )
}

/// What to say when there is no certificate, or no new one.
pub fn not_rotated(why: impl Into<String>) -> ConditionUpdate {
    wanted(
        managed_cluster_add_on::CERTIFICATE_ROTATED,
        false,
        reason::CERTIFICATE_UPDATE_FAILED,
        why,
    )
}

fn refreshed(expires_at: Timestamp) -> ConditionUpdate {
    wanted(
        managed_cluster_add_on::TOKEN_REFRESHED,
        true,
        reason::TOKEN_REFRESHED,
        format!("Addon token refreshed, expires at {expires_at}"),
    )
}

fn no_token(why: &str) -> ConditionUpdate {
    wanted(
        managed_cluster_add_on::TOKEN_REFRESHED,
        false,
        reason::TOKEN_CREATION_FAILED,
        why,
    )
}
