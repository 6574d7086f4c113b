//! What a work of an add-on says besides its manifests: what stays behind, what is reported, which configuration it is
//! made of. Upstream: addon-framework `pkg/addonmanager/controllers/agentdeploy/utils.go`.

use std::collections::BTreeMap;

use ocm_api::{
    addon::v1alpha1::ConfigReference,
    work::{
        DeleteOption, DeletePropagationPolicy, FeedbackRule, FeedbackRuleType, FeedbackScrapeType,
        ManifestConfigOption, OrphaningRule, SelectivelyOrphan,
    },
};
use serde_json::Value;

use super::manifest::{self, text};
use crate::{Health, Probe};

/// The field manager that the API server fills in where a work asks for server-side apply and names none.
const FIELD_MANAGER: &str = "work-agent";

/// What happens to the objects when the work goes: some stay when they are marked so, else nothing is said.
pub fn delete_option(manifests: &[Value]) -> Option<DeleteOption> {
    let staying = manifests.iter().filter(|it| manifest::stays_behind(it));
    let rules: Vec<_> = staying
        .map(|it| OrphaningRule {
            group: manifest::group(it).to_owned(),
            resource: manifest::resource(it, manifests),
            name: text(it, "/metadata/name").to_owned(),
            namespace: text(it, "/metadata/namespace").to_owned(),
        })
        .collect();
    (!rules.is_empty()).then_some(DeleteOption {
        propagation_policy: DeletePropagationPolicy::SelectivelyOrphan,
        selectively_orphans: Some(SelectivelyOrphan { orphaning_rules: rules }),
        ttl_seconds_after_finished: None,
    })
}

/// What health looks at on a cluster that these manifests are deployed to.
pub fn probes<'m>(health: &Health, deployed: impl IntoIterator<Item = &'m Value>) -> Vec<Probe> {
    let wants = |it: &Value| match (manifest::group(it), text(it, "/kind")) {
        // What is meant to have no replicas is never ready, and not ill for that.
        ("apps", "Deployment") => it.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0),
        ("apps", "DaemonSet") => *health == Health::Workloads,
        _ => false,
    };
    match health {
        Health::Lease | Health::None => Vec::new(),
        Health::Work(probes) => probes.clone(),
        Health::Deployments | Health::Workloads => deployed.into_iter().filter(|it| wants(it)).map(probe).collect(),
    }
}

/// What is reported of hooks: whether they are complete.
pub fn hook_probes(hooks: &[Value]) -> Vec<Probe> {
    hooks.iter().map(probe).collect()
}

fn probe(manifest: &Value) -> Probe {
    Probe::well_known(
        manifest::group(manifest),
        &manifest::resource(manifest, &[]),
        text(manifest, "/metadata/namespace"),
        text(manifest, "/metadata/name"),
    )
}

/// What the probes ask for, and what the add-on asks for itself, merged by the objects they name: rules add up, and the
/// add-on's update strategy counts.
pub fn manifest_configs(probes: &[Probe], own: Vec<ManifestConfigOption>) -> Vec<ManifestConfigOption> {
    let probed = probes.iter().map(|it| ManifestConfigOption {
        resource_identifier: it.resource.clone(),
        feedback_rules: it.rules.clone(),
        ..ManifestConfigOption::default()
    });
    let mut merged: Vec<ManifestConfigOption> = Vec::new();
    for mut option in probed.chain(own) {
        if let Some(apply) = option
            .update_strategy
            .as_mut()
            .and_then(|it| it.server_side_apply.as_mut())
            && apply.field_manager.is_empty()
        {
            apply.field_manager = FIELD_MANAGER.to_owned();
        }
        match merged
            .iter_mut()
            .find(|it| it.resource_identifier == option.resource_identifier)
        {
            Some(present) => merge(present, option),
            None => merged.push(option),
        }
    }
    merged
}

fn merge(present: &mut ManifestConfigOption, option: ManifestConfigOption) {
    for rule in option.feedback_rules {
        merge_rule(&mut present.feedback_rules, rule);
    }
    for rule in option.condition_rules {
        if present.condition_rules.iter().all(|it| it.condition != rule.condition) {
            present.condition_rules.push(rule);
        }
    }
    if option.update_strategy.is_some() {
        present.update_strategy = option.update_strategy;
    }
    if option.feedback_scrape_type == FeedbackScrapeType::Watch {
        present.feedback_scrape_type = FeedbackScrapeType::Watch;
    }
}

fn merge_rule(present: &mut Vec<FeedbackRule>, rule: FeedbackRule) {
    match present.iter_mut().find(|it| it.r#type == rule.r#type) {
        Some(same) if rule.r#type == FeedbackRuleType::JSONPaths => {
            for path in rule.json_paths {
                if same.json_paths.iter().all(|it| it.name != path.name) {
                    same.json_paths.push(path);
                }
            }
        }
        Some(_) => {}
        None => present.push(rule),
    }
}

/// Which state of which configuration, by `<resource>.<group>/<namespace>/<name>`, is meant for the cluster.
pub fn config_hashes(references: &[ConfigReference]) -> BTreeMap<String, String> {
    let entry = |it: &ConfigReference| {
        let desired = it.desired_config.as_ref()?;
        let dot = if it.group.is_empty() { "" } else { "." };
        let key = format!(
            "{}{dot}{}/{}/{}",
            it.resource, it.group, desired.namespace, desired.name
        );
        Some((key, desired.spec_hash.clone()))
    };
    references.iter().filter_map(entry).collect()
}

/// The same as the annotation `config-spec-hash` of a work has it; none without configurations.
pub fn config_annotation(references: &[ConfigReference]) -> Option<String> {
    let hashes = (!references.is_empty()).then(|| config_hashes(references))?;
    Some(serde_json::to_string(&hashes).expect("a map of texts serializes"))
}

#[cfg(test)]
mod tests {
    use ocm_api::{
        annotations,
        work::{ResourceIdentifier, ServerSideApplyConfig, UpdateStrategy, UpdateStrategyType},
    };
    use serde_json::json;

    use super::*;

    fn workload(kind: &str, name: &str, replicas: Option<i64>) -> Value {
        let metadata = json!({"name": name, "namespace": "n"});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": replicas}})
    }

    fn named(probes: &[Probe]) -> Vec<String> {
        let name = |it: &Probe| {
            format!(
                "{} {}/{}",
                it.resource.resource, it.resource.namespace, it.resource.name
            )
        };
        probes.iter().map(name).collect()
    }

    #[test]
    fn objects_that_stay_behind_are_named_one_by_one() {
        let mut account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}});
        assert_eq!(delete_option(std::slice::from_ref(&account)), None);
        account["metadata"]["annotations"] = json!({ annotations::ADDON_DELETION_ORPHAN: "" });
        let option = delete_option(&[account, workload("Deployment", "b", None)]);
        assert_eq!(
            serde_json::to_value(option).unwrap(),
            json!({
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [
                    {"group": "", "resource": "serviceaccounts", "name": "a", "namespace": "n"}
                ]}
            })
        );
    }

    #[test]
    fn health_probes_only_cover_workloads_that_should_run() {
        let deployed = [
            workload("Deployment", "runs", None),
            workload("Deployment", "off", Some(0)),
            workload("DaemonSet", "everywhere", None),
            workload("StatefulSet", "other", None),
        ];
        assert_eq!(named(&probes(&Health::Deployments, &deployed)), ["deployments n/runs"]);
        assert_eq!(
            named(&probes(&Health::Workloads, &deployed)),
            ["deployments n/runs", "daemonsets n/everywhere"]
        );
        assert!(probes(&Health::Lease, &deployed).is_empty());
        let own = vec![Probe::deployment("*", "*")];
        assert_eq!(probes(&Health::Work(own.clone()), &deployed), own);
    }

    #[test]
    fn manifest_options_of_the_add_on_extend_the_probe_options() {
        let probe = Probe::deployment("n", "a").reading("one", ".status.one");
        let own = ManifestConfigOption {
            update_strategy: Some(UpdateStrategy {
                r#type: UpdateStrategyType::ServerSideApply,
                server_side_apply: Some(ServerSideApplyConfig::default()),
            }),
            ..manifest_configs(
                &[Probe::deployment("n", "a")
                    .reading("one", ".other")
                    .reading("two", ".status.two")],
                Vec::new(),
            )
            .remove(0)
        };
        let other = ManifestConfigOption {
            resource_identifier: ResourceIdentifier {
                resource: "configmaps".to_owned(),
                name: "*".to_owned(),
                ..ResourceIdentifier::default()
            },
            ..ManifestConfigOption::default()
        };
        let merged = manifest_configs(&[probe], vec![own, other]);
        assert_eq!(
            serde_json::to_value(merged).unwrap(),
            json!([
                {
                    "resourceIdentifier": {"group": "apps", "resource": "deployments", "name": "a", "namespace": "n"},
                    "feedbackRules": [
                        {"type": "WellKnownStatus"},
                        {"type": "JSONPaths", "jsonPaths": [
                            {"name": "one", "path": ".status.one"}, {"name": "two", "path": ".status.two"}
                        ]}
                    ],
                    "updateStrategy": {
                        "type": "ServerSideApply", "serverSideApply": {"force": false, "fieldManager": "work-agent"}
                    }
                },
                {"resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*"}}
            ])
        );
    }

    #[test]
    fn the_configuration_annotation_of_a_work_matches_upstream() {
        let reference = |group: &str, resource: &str, namespace: &str, hash: &str| {
            let desired = json!({"namespace": namespace, "name": "global", "specHash": hash});
            json!({"group": group, "resource": resource, "name": "global", "desiredConfig": desired})
        };
        let references: Vec<ConfigReference> = serde_json::from_value(json!([
            reference("x.io", "things", "", "b"),
            reference("", "configmaps", "n", "a"),
        ]))
        .unwrap();
        assert_eq!(
            config_annotation(&references).unwrap(),
            r#"{"configmaps/n/global":"a","things.x.io//global":"b"}"#
        );
        assert_eq!(config_annotation(&[]), None);
    }
}
