//! What a chart becomes as a release, and how it is stored.

use std::sync::Arc;

use application_render::release::{
    PrepareError, PreparedRelease, ReleaseHook, ReleaseInfo, ReleaseInputs, ReleaseStatus, StoreError, StoredRelease,
    hooks_of_event, manifest_objects, prepare,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::{Compression, write::GzEncoder};
use gotemplate::helm::{Capabilities, Chart, ObjectLookup};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const CHART: &[(&str, &str)] = &[
    (
        "Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: \"4\"\nannotations: {a: b, c: 1}\n",
    ),
    ("values.yaml", "replicas: 1\ntext: <&>\n"),
    (
        "crds/a.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.x}\n",
    ),
    (
        "templates/NOTES.txt",
        "Revision {{ .Release.Revision }} of {{ .Release.Name }}.\n",
    ),
    (
        "templates/service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}\n  labels: {a: b}\n",
    ),
    (
        "templates/config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  text: {{ .Values.text | \
         quote }}\n  upgrade: {{ .Release.IsUpgrade | quote }}\n  found: {{ (lookup \"v1\" \"Secret\" \"ns\" \
         \"s\").found | quote }}\n",
    ),
    (
        "templates/hooks.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  annotations:\n    helm.sh/hook: \
         pre-install,pre-upgrade\n    helm.sh/hook-weight: \"5\"\n---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  \
         name: a\n  annotations:\n    helm.sh/hook: pre-install\n    helm.sh/hook-weight: \"5\"\n    \
         helm.sh/hook-delete-policy: hook-succeeded\n    helm.sh/hook-output-log-policy: \
         hook-failed\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: c\n  annotations:\n    helm.sh/hook: \
         pre-install\n    helm.sh/hook-weight: \"-1\"\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: t\n  \
         annotations:\n    helm.sh/hook: test-success\n",
    ),
];

fn chart(files: &[(&str, &str)]) -> Chart {
    Chart::from_files(files.iter().copied()).unwrap()
}

fn prepared(
    chart: &Chart,
    name: &str,
    revision: i64,
    lookup: Option<ObjectLookup>,
) -> Result<PreparedRelease, PrepareError> {
    prepare(&ReleaseInputs {
        chart,
        values: &Map::new(),
        name,
        namespace: "ns",
        revision,
        is_upgrade: revision > 1,
        capabilities: &Capabilities::default(),
        lookup,
        clock: None,
        random: None,
    })
}

fn stored() -> StoredRelease {
    let chart = chart(CHART);
    let release = prepared(&chart, "web", 2, None).unwrap();
    StoredRelease {
        name: "web".to_owned(),
        namespace: "ns".to_owned(),
        version: 2,
        chart: StoredRelease::chart_value(&chart),
        config: Map::from_iter([("replicas".to_owned(), json!(2))]),
        manifest: release.manifest,
        hooks: release.hooks,
        info: ReleaseInfo {
            first_deployed: "2026-11-29T05:00:00.5Z".parse().ok(),
            last_deployed: "2026-11-29T06:00:00Z".parse().ok(),
            description: "Upgrade complete".to_owned(),
            status: ReleaseStatus::Deployed,
            notes: release.notes,
            ..ReleaseInfo::default()
        },
        labels: [("team".to_owned(), "a".to_owned())].into(),
    }
}

#[test]
fn objects_are_in_order_and_marked_as_helms() {
    let release = prepared(&chart(CHART), "web", 2, None).unwrap();
    let kinds: Vec<_> = release.objects.iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["ConfigMap", "Service"]);
    assert_eq!(
        release.objects[1]["metadata"],
        json!({
            "name": "web",
            "labels": {"a": "b", "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"},
        })
    );
    assert_eq!(release.objects[0]["data"]["upgrade"], "true");
    assert_eq!(release.notes, "Revision 2 of web.\n");
    assert_eq!(release.crds.len(), 1);
    assert!(
        release
            .manifest
            .starts_with("---\n# Source: web/templates/config.yaml\napiVersion: v1\n")
    );
    assert!(!release.manifest.contains("managed-by"));
    assert_eq!(
        manifest_objects(&release.manifest, "web", "ns").unwrap(),
        release.objects
    );
}

#[test]
fn a_template_may_look_objects_up() {
    let lookup: ObjectLookup =
        Arc::new(|version, kind, namespace, name| Ok(json!({"found": format!("{version} {kind} {namespace} {name}")})));
    let release = prepared(&chart(CHART), "web", 1, Some(lookup)).unwrap();
    assert_eq!(release.objects[0]["data"]["found"], "v1 Secret ns s");
}

#[test]
fn hooks_run_by_weight_and_then_by_name() {
    let release = prepared(&chart(CHART), "web", 1, None).unwrap();
    let names = |event: &str| -> Vec<String> {
        hooks_of_event(&release.hooks, event)
            .iter()
            .map(|it| it.name.clone())
            .collect()
    };
    assert_eq!(names("pre-install"), ["c", "a", "b"]);
    assert_eq!(names("pre-upgrade"), ["b"]);
    assert_eq!(names("test"), ["t"]);
    let job: &ReleaseHook = hooks_of_event(&release.hooks, "pre-install")[1];
    assert!(job.needs_pods() && job.is_deleted_at("hook-succeeded") && !job.is_deleted_at("before-hook-creation"));
    assert_eq!(job.output_log_policies, ["hook-failed"]);
    let secret = hooks_of_event(&release.hooks, "pre-install")[0];
    assert!(!secret.needs_pods() && secret.is_deleted_at("before-hook-creation"));
}

#[test]
fn what_helm_would_not_install_is_refused() {
    let whole = chart(CHART);
    for name in ["", "Web", "-a", "a_b", "a..b", &"a".repeat(54)] {
        assert!(
            matches!(prepared(&whole, name, 1, None), Err(PrepareError::Name(_))),
            "{name}"
        );
    }
    let with = |metadata: &str, template: &str| {
        let chart = chart(&[("Chart.yaml", metadata), ("templates/a.yaml", template)]);
        prepared(&chart, "web", 1, None).unwrap_err().to_string()
    };
    let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    assert_eq!(
        with(&format!("{metadata}type: library\n"), ""),
        "library charts are not installable"
    );
    assert_eq!(
        with(
            &format!("{metadata}dependencies: [{{name: db, version: 1.0.0, repository: x}}]\n"),
            ""
        ),
        "found in Chart.yaml, but missing in charts/ directory: db"
    );
    assert_eq!(
        with(metadata, "kind: A\napiVersion: v1\n"),
        "web/templates/a.yaml: an object has no name"
    );
    assert_eq!(
        with(metadata, "kind: A\n"),
        "web/templates/a.yaml: it has no apiVersion and kind"
    );
    assert!(with(metadata, "{{ fail \"no\" }}").contains("no"));
}

#[test]
fn a_release_is_the_same_after_it_was_stored() {
    let release = stored();
    let now = release.info.last_deployed;
    let secret = release.secret(now, None).unwrap();
    assert_eq!(secret["metadata"]["name"], "sh.helm.release.v1.web.v2");
    assert_eq!(secret["type"], "helm.sh/release.v1");
    assert_eq!(
        secret["metadata"]["labels"],
        json!({
            "name": "web", "owner": "helm", "status": "deployed", "version": "2", "createdAt": "1795932000",
            "team": "a",
        })
    );
    assert_eq!(StoredRelease::from_secret(&secret).unwrap(), release);
    assert_eq!(release.chart["metadata"]["annotations"], json!({"a": "b", "c": "1"}));
}

/// A Secret of Helm 3.21.4's, recorded by the tests of `addon-application` with `HELM_RELEASE_RECORD`.
#[test]
fn a_release_of_helms_is_read() {
    let secret: Value = serde_json::from_slice(include_bytes!("recorded/helm-3.21.4.json")).unwrap();
    let release = StoredRelease::from_secret(&secret).unwrap();
    assert_eq!(
        (release.name.as_str(), release.namespace.as_str(), release.version),
        ("web", "team", 1)
    );
    assert_eq!(release.info.status, ReleaseStatus::Deployed);
    assert_eq!(release.info.description, "Install complete");
    assert_eq!(release.info.notes, "Good.");
    assert!(release.info.first_deployed.is_some() && release.info.deleted.is_none());
    assert_eq!(release.config, Map::from_iter([("v".to_owned(), json!(1))]));
    assert_eq!(release.labels, [("team".to_owned(), "a".to_owned())].into());
    assert_eq!(manifest_objects(&release.manifest, "web", "team").unwrap().len(), 2);
    let hook = &release.hooks[0];
    assert_eq!((hook.name.as_str(), hook.weight), ("hook", -2));
    let mut events = hook.events.clone();
    events.sort();
    assert_eq!(events, ["pre-delete", "test"]);
    let again = release.secret(release.info.first_deployed, None).unwrap();
    assert_eq!(StoredRelease::from_secret(&again).unwrap(), release);
}

#[test]
fn a_release_that_does_not_fit_is_refused() {
    let mut release = stored();
    // What does not pack: a text of hashes.
    let mut state = 1_u64;
    let mut noise = String::new();
    while noise.len() < 3 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise.push_str(&format!("{state:x}"));
    }
    release.manifest = noise;
    assert!(matches!(release.secret(None, None), Err(StoreError::Large { .. })));
}

fn secret_of(bytes: &[u8]) -> Value {
    json!({
        "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.web.v1"},
        "data": {"release": BASE64.encode(BASE64.encode(bytes))},
    })
}

#[test]
fn a_secret_that_is_no_release_is_refused() {
    let invalid = |secret: &Value| StoredRelease::from_secret(secret).unwrap_err().to_string();
    assert!(invalid(&json!({})).contains("its type is not"));
    assert!(invalid(&json!({"type": "helm.sh/release.v1"})).contains("no data"));
    assert!(invalid(&secret_of(b"no json")).contains("expected"));
    assert!(invalid(&secret_of(br#"{"name":"other","version":1}"#)).contains("another one"));
    let plain = StoredRelease::from_secret(&secret_of(br#"{"name":"web","version":1,"hooks":null,"config":null}"#));
    assert_eq!(plain.unwrap().info.status, ReleaseStatus::Unknown);
    let bomb = {
        use std::io::Write;
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..101 {
            packed.write_all(&zeros).unwrap();
        }
        packed.finish().unwrap()
    };
    assert!(invalid(&secret_of(&bomb)).contains("bytes unpacked"));
}

proptest! {
    #[test]
    fn a_random_secret_is_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,80}") {
        let _ = StoredRelease::from_secret(&secret_of(&bytes));
        let _ = StoredRelease::from_secret(&secret_of(text.as_bytes()));
        let _ = manifest_objects(&text, "web", "ns");
        let _ = manifest_objects(&String::from_utf8_lossy(&bytes), "web", "ns");
    }
}
