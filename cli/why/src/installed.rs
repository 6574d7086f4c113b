//! What ClusterManagers and Klusterlets have in common: an operator that has to look after them.

use anyhow::Result;
use client::connect::ApiServer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ocm_api::{condition::Condition, namespaces};

use crate::workload::{self, Workload};

/// The operator on a cluster.
pub enum OperatorState {
    /// It is not there.
    Absent,
    /// It runs.
    Runs,
    /// Its Deployment is not as it should be.
    Ails(Box<Workload>),
}

/// Looks at an operator's Deployment.
///
/// # Errors
/// When the cluster cannot be asked.
pub async fn operator(api: &ApiServer, name: &str) -> Result<OperatorState> {
    Ok(match workload::look(api, namespaces::OPERATOR, name).await? {
        None => OperatorState::Absent,
        Some(it) if it.sentences("").is_empty() => OperatorState::Runs,
        Some(it) => OperatorState::Ails(Box::new(it)),
    })
}

/// How far the operator is with an object.
pub struct Progress<'a> {
    /// Its kind and name.
    pub title: &'a str,
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// The generation that was last looked at.
    pub observed_generation: i64,
    /// What was said of it.
    pub conditions: &'a [Condition],
    /// The name of the operator's Deployment.
    pub operator: &'a str,
    /// The command that puts the operator there.
    pub install: &'a str,
}

/// Says what is missing of the operator. The answer is whether what the object's conditions say counts.
pub fn of_operator(said: &mut Vec<String>, it: &Progress<'_>, operator: &OperatorState, fix: &str) -> bool {
    let title = it.title;
    let is_new = it.metadata.generation.unwrap_or_default() > it.observed_generation;
    let is_going = it.metadata.deletion_timestamp.is_some();
    if is_going {
        let finalizers = it.metadata.finalizers.clone().unwrap_or_default().join(", ");
        said.push(format!(
            "{title} is being deleted and waits for the finalizers {finalizers}."
        ));
    }
    match operator {
        OperatorState::Runs if !is_going && is_new => said.push(format!(
            "The operator has not looked at the last change of {title} yet; `kubectl logs -n {} deployment/{}` says what it does.",
            namespaces::OPERATOR, it.operator
        )),
        OperatorState::Runs => {}
        // What has been done counts: the operator that did it may be somewhere else, or a process without a Deployment.
        OperatorState::Absent if !is_going && !is_new => {}
        OperatorState::Absent => said.push(format!(
            "No operator on this cluster looks after {title}: `{}` puts one there.",
            it.install
        )),
        OperatorState::Ails(workload) => {
            let why = workload.sentences(fix);
            said.extend(why.into_iter().map(|it| format!("The operator does not run as it should. {it}")));
        }
    }
    if is_going {
        // What keeps it is in the conditions, as far as anybody has said so.
        said.extend(
            it.conditions
                .iter()
                .filter(|it| it.status == "False" && it.type_ == "Applied")
                .map(sentence),
        );
        return false;
    }
    !it.conditions.is_empty()
}

/// What a condition says, as a sentence.
pub fn sentence(it: &Condition) -> String {
    let text = if it.message.is_empty() { &it.reason } else { &it.message };
    format!("{}.", text.replace('\n', "; ").trim_end_matches('.'))
}
