//! Clusters that asked to join are let in: their certificate requests are approved, and they are accepted.
//! Upstream: clusteradm `pkg/cmd/accept/exec.go`. We differ where it misleads: a request is approved only if it
//! asks for exactly the cluster's identity, nothing is said to have succeeded unless the cluster is accepted and a
//! request of it is approved, and `--requesters` has an effect. As there, a cluster that cannot be accepted keeps no
//! other out.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, bail};
use client::{
    cluster_name,
    connect::ApiServer,
    csr::{self, Stage},
    kinds,
};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Namespace};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

/// Which clusters are let in, and how.
#[derive(Clone, Debug)]
pub struct AcceptOptions {
    /// Their names.
    pub clusters: Vec<String>,
    /// Whether to wait until each has asked, and until its namespace is there.
    pub wait: bool,
    /// How long to wait.
    pub timeout: Duration,
    /// Whose requests may be approved.
    pub requesters: Requesters,
    /// Whether only to say what would be done.
    pub dry_run: bool,
}

/// Whose requests may be approved.
#[derive(Clone, Debug)]
pub enum Requesters {
    /// Those with a bootstrap identity, and these users.
    Bootstrap(Vec<String>),
    /// Anybody's, as long as they ask for the cluster's identity.
    Anybody,
}

impl Default for Requesters {
    fn default() -> Self {
        Self::Bootstrap(vec![])
    }
}

/// What there is to tell.
#[derive(Debug)]
pub enum Event {
    /// A line.
    Line(String),
    /// A cluster is let in.
    Joined(String),
}

type Tell<'a> = &'a mut dyn FnMut(Event) -> Result<()>;

/// How often a cluster that has not asked yet is looked for. A watch would need two, for a command that runs once.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Lets clusters in.
///
/// # Errors
/// What is wrong with any of them, after all were tried.
pub async fn accept(hub: &ApiServer, options: &AcceptOptions, tell: Tell<'_>) -> Result<()> {
    for cluster in &options.clusters {
        cluster_name::check(cluster)?;
    }
    Accept { options, hub }.run(tell).await
}

struct Accept<'a> {
    options: &'a AcceptOptions,
    hub: &'a ApiServer,
}

impl Accept<'_> {
    async fn run(&self, tell: Tell<'_>) -> Result<()> {
        let options = self.options;
        let deadline = tokio::time::Instant::now() + options.timeout;
        let mut open: Vec<Asking> = Vec::new();
        for cluster in &options.clusters {
            if !open.iter().any(|it| it.cluster == cluster) {
                open.push(Asking::new(cluster));
            }
        }
        // One that cannot be accepted keeps no other out, so everything that is wrong is told at the end.
        let mut wrong = Vec::new();
        loop {
            let mut waiting = Vec::new();
            for mut it in open {
                if it.is_new {
                    tell(Event::Line(format!(
                        "Starting approve csrs for the cluster {}",
                        it.cluster
                    )))?;
                    it.is_new = false;
                }
                match self.look(&mut it, tell).await {
                    Ok(Progress::Done) => {}
                    Ok(Progress::NotYet(why)) if options.wait => waiting.push((it, why)),
                    Ok(Progress::NotYet(why)) => wrong.push(format!(
                        "{why}; add --wait to wait for it, `drover why managedcluster/{}` says more",
                        it.cluster
                    )),
                    Err(error) => wrong.push(output::sentence(&error)),
                }
            }
            if tokio::time::Instant::now() + LOOK_AGAIN >= deadline {
                let late = waiting.drain(..).map(|(_, why)| why);
                wrong.extend(late.map(|why| {
                    format!(
                        "{why}, {} s after being asked to wait for it",
                        options.timeout.as_secs()
                    )
                }));
            }
            if waiting.is_empty() {
                break;
            }
            open = waiting.into_iter().map(|(it, _)| it).collect();
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        if !wrong.is_empty() {
            bail!("{}", wrong.join("; "));
        }
        Ok(())
    }

    /// Does for one cluster what can be done now.
    async fn look(&self, it: &mut Asking<'_>, tell: Tell<'_>) -> Result<Progress> {
        if !it.is_accepted {
            match self.try_accept(it, tell).await? {
                Progress::Done => it.is_accepted = true,
                not_yet => return Ok(not_yet),
            }
        }
        if !self.options.wait || self.options.dry_run {
            return Ok(Progress::Done);
        }
        namespace_made(self.hub, it.cluster).await
    }

    async fn try_accept(&self, it: &mut Asking<'_>, tell: Tell<'_>) -> Result<Progress> {
        let Self { options, hub } = self;
        let cluster = it.cluster;
        let managed = hub.all(&kinds::managed_cluster());
        let seen = managed.get_opt(cluster).await;
        let seen = seen.map_err(|error| hub.explain(&format!("could not get cluster {cluster}"), &error))?;
        let Some(seen) = seen else {
            return Ok(Progress::NotYet(format!(
                "no cluster named {cluster} has asked to join yet"
            )));
        };
        let accepted = seen.data["spec"]["hubAcceptsClient"] == true;
        let joined = client::conditions::of(&seen, "ManagedClusterJoined").is_some_and(|it| it.is_true());

        let csrs: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
        let selector = format!("{}={cluster},!{}", kinds::CLUSTER_NAME_LABEL, kinds::ADDON_NAME_LABEL);
        let listed = csrs.list(&ListParams::default().labels(&selector)).await;
        let listed = listed.map_err(|error| hub.explain("could not list the certificate requests", &error))?;
        let verdict = judge(&listed.items, cluster, &options.requesters);
        for line in &verdict.lines {
            if it.told.insert(line.clone()) {
                tell(Event::Line(line.clone()))?;
            }
        }
        if verdict.approve.is_empty() && !verdict.has_approved && !joined {
            return Ok(Progress::NotYet(format!(
                "no csr is approved yet for cluster {cluster}"
            )));
        }
        let note = output::note(options.dry_run);
        // Admission first: were the request approved and the command then stopped, an agent would hold a certificate
        // for a cluster that nobody has accepted. The other way round, nothing is given away.
        if accepted {
            tell(Event::Line(format!(
                "hubAcceptsClient already set for managed cluster {cluster}"
            )))?;
        } else {
            if !options.dry_run {
                let patch = Patch::Merge(json!({ "spec": { "hubAcceptsClient": true } }));
                let done = managed.patch(cluster, &PatchParams::default(), &patch).await;
                done.map_err(|error| hub.explain(&format!("could not accept cluster {cluster}"), &error))?;
            }
            tell(Event::Line(format!(
                "set hubAcceptsClient to true for managed cluster {cluster}{note}"
            )))?;
        }
        for name in &verdict.approve {
            let Some(csr) = listed.items.iter().find(|it| it.metadata.name.as_ref() == Some(name)) else {
                continue;
            };
            if !options.dry_run {
                let approval = csr::approval(csr, "DroverApprove", "This CSR was approved by drover accept.");
                let done = csrs
                    .patch_approval(name, &PatchParams::default(), &Patch::Merge(approval))
                    .await;
                done.map_err(|error| hub.explain(&format!("could not approve CSR {name}"), &error))?;
            }
            tell(Event::Line(format!("CSR {name} approved{note}")))?;
        }
        if !options.dry_run {
            tell(Event::Joined(cluster.to_owned()))?;
        }
        Ok(Progress::Done)
    }
}

enum Progress {
    Done,
    NotYet(String),
}

/// A cluster that is to be accepted, and how far it is.
struct Asking<'a> {
    cluster: &'a str,
    /// Whether it has not been looked at yet.
    is_new: bool,
    is_accepted: bool,
    /// What was said of its requests: nobody wants to read it twice a second.
    told: BTreeSet<String>,
}

impl<'a> Asking<'a> {
    fn new(cluster: &'a str) -> Self {
        Self {
            cluster,
            is_new: true,
            is_accepted: false,
            told: BTreeSet::new(),
        }
    }
}

/// What comes next is usually put into the cluster's namespace, which the hub makes once it sees the acceptance.
async fn namespace_made(hub: &ApiServer, cluster: &str) -> Result<Progress> {
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let seen = namespaces.get_opt(cluster).await;
    let seen = seen.map_err(|error| hub.explain(&format!("could not get namespace {cluster}"), &error))?;
    if seen.is_some_and(|it| it.metadata.deletion_timestamp.is_none()) {
        return Ok(Progress::Done);
    }
    Ok(Progress::NotYet(format!(
        "cluster {cluster} is accepted, but there is no namespace {cluster} (see whether a hub runs)"
    )))
}

/// What to do with the requests of one cluster.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// The names to approve now.
    approve: Vec<String>,
    /// Whether one had been approved before.
    has_approved: bool,
    /// What to tell the user about the others.
    lines: Vec<String>,
}

fn judge(csrs: &[CertificateSigningRequest], cluster: &str, requesters: &Requesters) -> Verdict {
    let mut verdict = Verdict::default();
    for csr in csrs {
        let name = csr.metadata.name.clone().unwrap_or_default();
        let fault = match requesters {
            Requesters::Bootstrap(more) => csr::fault(csr, cluster, more),
            Requesters::Anybody => csr::request_fault(csr, cluster),
        };
        if let Some(fault) = fault {
            // What is decided already needs no advice.
            if csr::stage(csr) == Stage::Pending {
                verdict.lines.push(format!("CSR {name} not approved: {fault}"));
            }
            continue;
        }
        match csr::stage(csr) {
            Stage::Pending => verdict.approve.push(name),
            Stage::Denied(_) => verdict.lines.push(format!("CSR {name} already denied")),
            Stage::Failed(why) => verdict.lines.push(format!("CSR {name} failed: {why}")),
            Stage::Approved | Stage::Issued => {
                verdict.has_approved = true;
                verdict.lines.push(format!("CSR {name} already approved"));
            }
        }
    }
    if csrs.is_empty() {
        verdict.lines.push(format!("no CSR to approve for cluster {cluster}"));
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_request_is_not_approved_and_gets_a_reason() {
        let mut csr = CertificateSigningRequest::default();
        csr.metadata.name = Some("cluster1-x".into());
        let verdict = judge(&[csr], "cluster1", &Requesters::default());
        assert_eq!(verdict.approve, Vec::<String>::new());
        assert_eq!(
            verdict.lines,
            ["CSR cluster1-x not approved: it is not labelled open-cluster-management.io/cluster-name=cluster1"]
        );
    }

    #[test]
    fn a_missing_request_is_reported() {
        let verdict = judge(&[], "cluster1", &Requesters::default());
        assert_eq!(verdict.lines, ["no CSR to approve for cluster cluster1"]);
        assert!(!verdict.has_approved);
    }
}
