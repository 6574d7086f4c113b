//! `drover why KIND/NAME`: what an object waits for, one sentence for each thing.

use anyhow::Result;
use clap::{Args, error::ErrorKind};
use client::{connect::ApiServer, flags::Global};
use output::Data;
use serde_json::json;
use why::object::ObjectRef;

/// Say what an object waits for, one sentence for each thing
#[derive(Debug, Args)]
pub struct Why {
    /// managedcluster/NAME, clustermanagementaddon/NAME, managedclusteraddon/CLUSTER/NAME, manifestwork/CLUSTER/NAME,
    /// manifestworkreplicaset/NAME, managedclusterset/NAME, managedclustersetbinding/NAMESPACE/NAME, placement/NAME,
    /// csr/NAME, managedserviceaccount/CLUSTER/NAME, clusterpermission/CLUSTER/NAME, managedproxyconfiguration/NAME,
    /// policy/NAMESPACE/NAME, subscription/NAMESPACE/NAME, clustermanager/NAME or klusterlet/NAME, the last two on the
    /// cluster that the operator runs on; a space may stand for the first slash
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,
    /// The namespace of a placement or a manifestworkreplicaset
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Of a placement or a manifestworkreplicaset: only what became of this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

impl Why {
    pub async fn run(self, global: &Global) -> Result<()> {
        let object = match self.object.join("/").parse() {
            Ok(ObjectRef::Placement { name, .. }) => ObjectRef::Placement {
                name,
                namespace: self.namespace,
                cluster: self.cluster,
            },
            Ok(ObjectRef::ManifestWorkReplicaSet { name, namespace, .. }) => ObjectRef::ManifestWorkReplicaSet {
                name,
                namespace: namespace.or(Some(self.namespace)),
                cluster: self.cluster,
            },
            Ok(object) => object,
            Err(error) => clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).exit(),
        };
        explain(global, &object, self.output).await
    }
}

/// Prints what `object` waits for.
pub async fn explain(global: &Global, object: &ObjectRef, data: Option<Data>) -> Result<()> {
    let hub = ApiServer::connect(global).await?;
    let sentences = why::sentences(&hub, object).await?;
    output::print(&encode(object, &sentences, data)?)
}

fn encode(object: &ObjectRef, sentences: &[String], data: Option<Data>) -> Result<String> {
    if let Some(data) = data {
        return output::encode(&json!({ "object": object.to_string(), "waitsFor": sentences }), data);
    }
    Ok(match sentences {
        [] => format!("{object} waits for nothing.\n"),
        sentences => sentences.iter().map(|it| format!("{it}\n")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_wait_for_is_reported_too() {
        let object = ObjectRef::ManagedCluster("a".into());
        assert_eq!(
            encode(&object, &[], None).unwrap(),
            "managedcluster/a waits for nothing.\n"
        );
        assert_eq!(
            encode(&object, &["One.".into(), "Two.".into()], None).unwrap(),
            "One.\nTwo.\n"
        );
    }
}
