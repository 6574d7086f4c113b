//! What is installed on a hub and on a managed cluster, by us or by upstream's operators.
//! Upstream: clusteradm `get hub-info` and `get klusterlet-info`, whose lines we print. We differ in that all numbers
//! of pods are (available/wanted), that a Deployment which is not there is told and no error,
//! and that ours are told as well.

use anyhow::Result;
use client::connect::ApiServer;
use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt};
use ocm_api::namespaces;
use serde_json::{Value, json};

use crate::{charts, cluster, hub, operated};

/// A part of an installation: its heading, what it is there, and its Deployment.
pub type Part = (&'static str, &'static str, &'static str);

const HUB: [Part; 7] = [
    ("Hub", "Controller", charts::HUB),
    (
        "AddOn Manager",
        "Controller",
        "cluster-manager-addon-manager-controller",
    ),
    ("Registration", "Controller", "cluster-manager-registration-controller"),
    ("Registration", "Webhook", "cluster-manager-registration-webhook"),
    ("Work", "Controller", "cluster-manager-work-controller"),
    ("Work", "Webhook", "cluster-manager-work-webhook"),
    ("Placement", "Controller", "cluster-manager-placement-controller"),
];
const AGENT: [Part; 4] = [
    ("Agent", "Controller", charts::AGENT),
    ("Registration", "Agent", "klusterlet-registration-agent"),
    ("Work", "Agent", "klusterlet-work-agent"),
    ("Agent", "Controller", "klusterlet-agent"),
];

/// Looks what a hub runs.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn of_hub(hub: &ApiServer) -> Result<Page> {
    Ok(Page {
        operator: deployment(hub, namespaces::OPERATOR, hub::NAME).await?,
        operator_kinds: kinds(hub, &[hub::CRD.to_owned()]).await?,
        parts: parts(hub, namespaces::HUB, &HUB).await?,
        kinds: kinds(hub, &names(&ocm_api::crds::hub())).await?,
        klusterlet: None,
    })
}

/// Looks what the agent of a managed cluster is; `namespace` is where it is, unless its Klusterlet says.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn of_cluster(cluster: &ApiServer, namespace: Option<&str>) -> Result<Page> {
    let klusterlets = operated::list(cluster, &operated::klusterlets()).await?;
    let klusterlet = klusterlets
        .iter()
        .find(|it| it.name_any() == cluster::NAME)
        .or(klusterlets.first());
    let said = klusterlet.and_then(|it| it.data["spec"]["namespace"].as_str());
    let namespace = namespace.or(said).unwrap_or(namespaces::AGENT);
    let conditions = klusterlet.and_then(|it| it.data["status"]["conditions"].as_array().cloned());
    Ok(Page {
        operator: deployment(cluster, namespaces::OPERATOR, cluster::NAME).await?,
        operator_kinds: kinds(cluster, &[cluster::CRD.to_owned()]).await?,
        parts: parts(cluster, namespace, &AGENT).await?,
        kinds: kinds(cluster, &names(&ocm_api::crds::managed_cluster())).await?,
        klusterlet: Some(conditions.unwrap_or_default()),
    })
}

/// A Deployment as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// How many of its pods work.
    pub available: i32,
    /// How many it is to have.
    pub wanted: i32,
    /// The image of its first container.
    pub image: String,
}

/// A kind and, if it is there, its versions, with a star before the one that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// The name of its CRD.
    pub name: String,
    /// Nothing where it is not there.
    pub versions: Option<Vec<String>>,
}

/// Everything that is told of one installation.
#[derive(Debug)]
pub struct Page {
    /// The operator.
    pub operator: Option<Deployed>,
    /// The kind that it follows.
    pub operator_kinds: Vec<Kind>,
    /// What it has made.
    pub parts: Vec<(Part, Deployed)>,
    /// The kinds of Open Cluster Management.
    pub kinds: Vec<Kind>,
    /// The conditions of the Klusterlet, on the page of an agent.
    pub klusterlet: Option<Vec<Value>>,
}

async fn deployment(target: &ApiServer, namespace: &str, name: &str) -> Result<Option<Deployed>> {
    let api: Api<Deployment> = Api::namespaced(target.client.clone(), namespace);
    let found = api.get_opt(name).await;
    let found =
        found.map_err(|error| target.explain(&format!("could not get Deployment {namespace}/{name}"), &error))?;
    Ok(found.map(|it| Deployed {
        available: it.status.and_then(|it| it.available_replicas).unwrap_or(0),
        wanted: it.spec.replicas.unwrap_or(1),
        image: it
            .spec
            .template
            .spec
            .and_then(|it| it.containers.into_iter().next()?.image)
            .unwrap_or_else(|| "<none>".to_owned()),
    }))
}

async fn parts(target: &ApiServer, namespace: &str, wanted: &[Part]) -> Result<Vec<(Part, Deployed)>> {
    let mut found = Vec::new();
    for part in wanted {
        if let Some(deployed) = deployment(target, namespace, part.2).await? {
            found.push((*part, deployed));
        }
    }
    Ok(found)
}

fn names(definitions: &[Value]) -> Vec<String> {
    let name = |it: &Value| it["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut names: Vec<String> = definitions.iter().map(name).collect();
    names.sort();
    names
}

async fn kinds(target: &ApiServer, names: &[String]) -> Result<Vec<Kind>> {
    let api: Api<CustomResourceDefinition> = Api::all(target.client.clone());
    let mut kinds = Vec::new();
    for name in names {
        let found = api.get_opt(name).await;
        let found = found.map_err(|error| target.explain(&format!("could not get the definition {name}"), &error))?;
        let versions = found.map(|it| {
            let served = it.spec.versions.into_iter().filter(|it| it.served);
            let mut versions: Vec<String> = served
                .map(|it| if it.storage { format!("*{}", it.name) } else { it.name })
                .collect();
            versions.sort();
            versions
        });
        kinds.push(Kind {
            name: name.clone(),
            versions,
        });
    }
    Ok(kinds)
}

impl Page {
    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.operator.is_none() && self.parts.is_empty() && self.kinds.iter().all(|it| it.versions.is_none())
    }

    /// For programs.
    pub fn value(&self) -> Value {
        let deployed = |it: &Deployed| json!({"available": it.available, "wanted": it.wanted, "image": it.image});
        let kinds = |kinds: &[Kind]| -> Value {
            kinds
                .iter()
                .map(|it| json!({"name": it.name, "installed": it.versions.is_some(), "versions": it.versions}))
                .collect()
        };
        let components = self.parts.iter().map(|((heading, what, name), it)| {
            let mut value = deployed(it);
            value["component"] = (*heading).into();
            value["role"] = (*what).into();
            value["deployment"] = (*name).into();
            value
        });
        let mut value = json!({
            "operator": self.operator.as_ref().map(deployed),
            "operatorCustomResourceDefinitions": kinds(&self.operator_kinds),
            "components": components.collect::<Vec<_>>(),
            "customResourceDefinitions": kinds(&self.kinds),
        });
        if let Some(conditions) = &self.klusterlet {
            value["klusterletConditions"] = json!(conditions);
        }
        value
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for condition in self.klusterlet.iter().flatten().enumerate() {
            let (number, condition) = condition;
            if number == 0 {
                text += "Klusterlet Conditions:\n";
            }
            for (label, field) in [
                ("Type", "type"),
                ("Status", "status"),
                ("LastTransitionTime", "lastTransitionTime"),
                ("Reason", "reason"),
                ("Message", "message"),
            ] {
                text += &format!("  {label}:\t{}\n", condition[field].as_str().unwrap_or_default());
            }
        }
        let line = |it: &Deployed| format!("({}/{}) {}", it.available, it.wanted, it.image);
        match &self.operator {
            None => text += "Registration Operator:\t<none>\n",
            Some(it) => {
                text += &format!("Registration Operator:\n  Controller:\t{}\n", line(it));
                text += "  CustomResourceDefinition:\n";
                text += &kinds_text(&self.operator_kinds);
            }
        }
        if self.parts.is_empty() && self.kinds.iter().all(|it| it.versions.is_none()) {
            text += "Components:\t<uninstalled>\n";
            return text;
        }
        text += "Components:\n";
        let mut under = "";
        for ((heading, what, _), it) in &self.parts {
            if under != *heading {
                text += &format!("  {heading}:\n");
                under = heading;
            }
            text += &format!("    {what}:\t{}\n", line(it));
        }
        text += "  CustomResourceDefinition:\n";
        text + &kinds_text(&self.kinds)
    }
}

fn kinds_text(kinds: &[Kind]) -> String {
    let line = |it: &Kind| match &it.versions {
        Some(versions) => format!("    (installed) {} [{}]\n", it.name, versions.join("|")),
        None => format!("    (absent) {} []\n", it.name),
    };
    kinds.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let deployed = |image: &str| Deployed {
            available: 1,
            wanted: 2,
            image: image.to_owned(),
        };
        let kind = |name: &str, versions: Option<&[&str]>| Kind {
            name: name.to_owned(),
            versions: versions.map(|it| it.iter().map(|it| (*it).to_owned()).collect()),
        };
        Page {
            operator: None,
            operator_kinds: vec![],
            parts: vec![
                (HUB[0], deployed("drover:1")),
                (HUB[2], deployed("r:1")),
                (HUB[3], deployed("r:1")),
            ],
            kinds: vec![kind("a.b", Some(&["*v1", "v1beta1"])), kind("c.d", None)],
            klusterlet: None,
        }
    }

    #[test]
    fn a_hub_is_printed_in_clusteradms_format() {
        assert_eq!(
            page().text(),
            "Registration Operator:\t<none>\nComponents:\n  Hub:\n    Controller:\t(1/2) drover:1\n  Registration:\n    \
             Controller:\t(1/2) r:1\n    Webhook:\t(1/2) r:1\n  CustomResourceDefinition:\n    (installed) a.b \
             [*v1|v1beta1]\n    (absent) c.d []\n"
        );
        let value = page().value();
        assert_eq!(value["components"][2]["role"], "Webhook");
        assert_eq!(value["customResourceDefinitions"][1]["installed"], false);
    }

    #[test]
    fn nothing_at_all_is_uninstalled() {
        let mut page = page();
        page.parts.clear();
        page.kinds.remove(0);
        assert!(page.text().ends_with("Components:\t<uninstalled>\n"), "{}", page.text());
    }

    #[test]
    fn the_conditions_of_a_klusterlet_come_first() {
        let mut page = page();
        page.klusterlet = Some(vec![
            json!({"type": "Applied", "status": "True", "reason": "R", "message": "M"}),
        ]);
        let text = page.text();
        assert!(
            text.starts_with("Klusterlet Conditions:\n  Type:\tApplied\n  Status:\tTrue\n  LastTransitionTime:\t\n"),
            "{text}"
        );
    }
}
