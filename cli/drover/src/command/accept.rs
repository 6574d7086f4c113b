//! `drover accept --clusters a,b`
//! Upstream: clusteradm `accept`, whose lines we print. We differ where it misleads: a request is approved only if it
//! asks for exactly the cluster's identity, the success line appears only when the cluster is accepted and a request of
//! it is approved, and `--requesters` has an effect. As there, a cluster that cannot be accepted keeps no other out.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use client::{
    cluster_name,
    connect::ApiServer,
    csr::{self, Stage},
    flags::Global,
    kinds,
};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Namespace};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

/// Accept clusters that asked to join: approve their certificate requests and admit them
#[derive(Debug, Args)]
pub struct Accept {
    /// The clusters to accept
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required = true,
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
    /// Wait until each cluster has asked, instead of failing when it has not, and until its namespace is there
    #[arg(long)]
    pub wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    pub timeout: u64,
    /// Users beside the bootstrap identities whose requests may be approved
    #[arg(long, value_delimiter = ',', value_name = "USERS")]
    pub requesters: Vec<String>,
    /// Approve the requests of every user; what they ask for must be the cluster's identity all the same
    #[arg(long)]
    pub skip_approve_check: bool,
    /// Say what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How often a cluster that has not asked yet is looked for. A watch would need two, for a command that runs once.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Accept {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            cluster_name::check(cluster)?;
        }
        self.accept(&ApiServer::connect(global).await?).await
    }

    /// Accepts them, and says so.
    pub async fn accept(&self, hub: &ApiServer) -> Result<()> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(self.timeout);
        let mut open: Vec<Asking> = Vec::new();
        for cluster in &self.clusters {
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
                    output::say(format_args!("Starting approve csrs for the cluster {}", it.cluster))?;
                    it.is_new = false;
                }
                match self.look(hub, &mut it).await {
                    Ok(Progress::Done) => {}
                    Ok(Progress::NotYet(why)) if self.wait => waiting.push((it, why)),
                    Ok(Progress::NotYet(why)) => wrong.push(format!(
                        "{why}; add --wait to wait for it, `drover why managedcluster/{}` says more",
                        it.cluster
                    )),
                    Err(error) => wrong.push(output::sentence(&error)),
                }
            }
            if tokio::time::Instant::now() + LOOK_AGAIN >= deadline {
                let late = waiting.drain(..).map(|(_, why)| why);
                wrong.extend(late.map(|why| format!("{why}, {} s after being asked to wait for it", self.timeout)));
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
    async fn look(&self, hub: &ApiServer, it: &mut Asking<'_>) -> Result<Progress> {
        if !it.is_accepted {
            match self.try_accept(hub, it).await? {
                Progress::Done => it.is_accepted = true,
                not_yet => return Ok(not_yet),
            }
        }
        if !self.wait || self.dry_run {
            return Ok(Progress::Done);
        }
        namespace_made(hub, it.cluster).await
    }

    async fn try_accept(&self, hub: &ApiServer, it: &mut Asking<'_>) -> Result<Progress> {
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
        let verdict = judge(&listed.items, cluster, self.trusted());
        for line in &verdict.lines {
            if it.told.insert(line.clone()) {
                output::say(line)?;
            }
        }
        if verdict.approve.is_empty() && !verdict.has_approved && !joined {
            return Ok(Progress::NotYet(format!(
                "no csr is approved yet for cluster {cluster}"
            )));
        }
        let note = output::note(self.dry_run);
        // Admission first: were the request approved and the command then stopped, an agent would hold a certificate
        // for a cluster that nobody has accepted. The other way round, nothing is given away.
        if accepted {
            output::say(format_args!(
                "hubAcceptsClient already set for managed cluster {cluster}"
            ))?;
        } else {
            let patch = Patch::Merge(json!({ "spec": { "hubAcceptsClient": true } }));
            let done = managed.patch(cluster, &self.parameters(), &patch).await;
            done.map_err(|error| hub.explain(&format!("could not accept cluster {cluster}"), &error))?;
            output::say(format_args!(
                "set hubAcceptsClient to true for managed cluster {cluster}{note}"
            ))?;
        }
        for name in &verdict.approve {
            let Some(csr) = listed.items.iter().find(|it| it.metadata.name.as_ref() == Some(name)) else {
                continue;
            };
            let done = csrs
                .patch_approval(
                    name,
                    &self.parameters(),
                    &Patch::Merge(csr::approval(
                        csr,
                        "DroverApprove",
                        "This CSR was approved by drover accept.",
                    )),
                )
                .await;
            done.map_err(|error| hub.explain(&format!("could not approve CSR {name}"), &error))?;
            output::say(format_args!("CSR {name} approved{note}"))?;
        }
        if !self.dry_run {
            output::say(format_args!(
                "\nYour managed cluster {cluster} has joined the Hub successfully."
            ))?;
        }
        Ok(Progress::Done)
    }

    /// Whose requests are approved.
    fn trusted(&self) -> Requesters<'_> {
        if self.skip_approve_check {
            Requesters::Any
        } else {
            Requesters::Known(&self.requesters)
        }
    }

    fn parameters(&self) -> PatchParams {
        PatchParams {
            dry_run: self.dry_run,
            ..PatchParams::default()
        }
    }
}

/// Whose requests are approved: those of any user, or beside the bootstrap identities those of some.
#[derive(Debug, Clone, Copy)]
enum Requesters<'a> {
    Any,
    Known(&'a [String]),
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

fn judge(csrs: &[CertificateSigningRequest], cluster: &str, requesters: Requesters<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for csr in csrs {
        let name = csr.metadata.name.clone().unwrap_or_default();
        let own = [csr.spec.username.clone().unwrap_or_default()];
        let trusted = match requesters {
            Requesters::Any => &own,
            Requesters::Known(users) => users,
        };
        if let Some(fault) = csr::fault(csr, cluster, trusted) {
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
        let verdict = judge(&[csr], "cluster1", Requesters::Any);
        assert_eq!(verdict.approve, Vec::<String>::new());
        assert_eq!(
            verdict.lines,
            ["CSR cluster1-x not approved: it is not labelled open-cluster-management.io/cluster-name=cluster1"]
        );
    }

    #[test]
    fn a_missing_request_is_reported() {
        let verdict = judge(&[], "cluster1", Requesters::Known(&[]));
        assert_eq!(verdict.lines, ["no CSR to approve for cluster cluster1"]);
        assert!(!verdict.has_approved);
    }
}
