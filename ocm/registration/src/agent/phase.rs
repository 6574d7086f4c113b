//! Where an agent is on its way, as a plain function of what it sees.

use std::fmt;

/// Where an agent is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has no credential and asks for one.
    Joining {
        /// What happens or hinders at present.
        why: String,
    },
    /// It has asked, and somebody on the hub must act.
    AwaitingAcceptance {
        /// What is waited for.
        why: String,
    },
    /// It is accepted and at work.
    Running,
    /// Its credential is of no use any more; it will join again by itself.
    CredentialLost {
        /// What became of it.
        why: String,
    },
    /// It was told to stop.
    Leaving,
}

/// What a phase is told from.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Whether the agent was told to stop.
    pub leaving: bool,
    /// Why the credential cannot be used; `None` when it can.
    pub invalid: Option<String>,
    /// Whether there ever was a credential.
    pub had_credential: bool,
    /// The hub's words when it no longer takes the credential.
    pub refused: Option<String>,
    /// What the certificate signing request waits for, when there is one.
    pub request: Option<String>,
    /// Whether the hub has accepted the cluster; `None` when it does not tell.
    pub accepted: Option<bool>,
    /// What hinders at present, such as a hub that does not answer.
    pub hindrance: Option<String>,
}

/// Where an agent is that sees this.
pub fn phase(seen: &Seen) -> Phase {
    if seen.leaving {
        return Phase::Leaving;
    }
    if let Some(why) = &seen.refused {
        return Phase::CredentialLost {
            why: format!("the hub does not take the credential any more: {why}"),
        };
    }
    if let Some(why) = &seen.invalid {
        return match (&seen.request, &seen.hindrance) {
            (_, Some(hindrance)) => Phase::Joining { why: hindrance.clone() },
            (Some(request), None) => Phase::AwaitingAcceptance { why: request.clone() },
            (None, None) if seen.had_credential => Phase::CredentialLost { why: why.clone() },
            (None, None) => Phase::Joining { why: why.clone() },
        };
    }
    match seen.accepted {
        Some(true) => Phase::Running,
        Some(false) => Phase::AwaitingAcceptance {
            why: "hubAcceptsClient of the ManagedCluster is not set".to_owned(),
        },
        None => Phase::AwaitingAcceptance {
            why: seen
                .hindrance
                .clone()
                .unwrap_or_else(|| "the hub has not told us about our cluster yet".to_owned()),
        },
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Joining { why } => write!(f, "joining: {why}"),
            Phase::AwaitingAcceptance { why } => write!(f, "awaiting acceptance: {why}"),
            Phase::Running => f.write_str("running"),
            Phase::CredentialLost { why } => write!(f, "credential lost: {why}"),
            Phase::Leaving => f.write_str("leaving"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: Seen, printed: &str) {
        assert_eq!(phase(&seen).to_string(), printed);
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn an_agent_joins_then_waits_then_runs() {
        let new = Seen {
            invalid: some("there is no hub kubeconfig yet"),
            ..Seen::default()
        };
        check(new.clone(), "joining: there is no hub kubeconfig yet");
        check(
            Seen {
                request: some("the request is not approved"),
                ..new
            },
            "awaiting acceptance: the request is not approved",
        );
        check(
            Seen {
                accepted: Some(false),
                ..Seen::default()
            },
            "awaiting acceptance: hubAcceptsClient of the ManagedCluster is not set",
        );
        check(
            Seen {
                accepted: Some(true),
                ..Seen::default()
            },
            "running",
        );
    }

    #[test]
    fn a_credential_is_lost_by_expiry_or_by_the_hub() {
        check(
            Seen {
                invalid: some("the client certificate expired"),
                had_credential: true,
                ..Seen::default()
            },
            "credential lost: the client certificate expired",
        );
        check(
            Seen {
                refused: some("Unauthorized"),
                accepted: Some(true),
                ..Seen::default()
            },
            "credential lost: the hub does not take the credential any more: Unauthorized",
        );
    }

    #[test]
    fn leaving_comes_before_everything() {
        check(
            Seen {
                leaving: true,
                refused: some("x"),
                ..Seen::default()
            },
            "leaving",
        );
    }
}
