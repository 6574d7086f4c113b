use super::*;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Writes a message field by field, as a Go client does.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn bytes(mut self, number: u32, bytes: &[u8]) -> Self {
        encode_key(number, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }
    fn text(self, number: u32, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }
    fn number(mut self, number: u32, value: u64) -> Self {
        encode_key(number, WireType::Varint, &mut self.0);
        encode_varint(value, &mut self.0);
        self
    }
    fn entry(self, number: u32, key: &str, value: &str) -> Self {
        let entry = Writer::default().text(1, key).text(2, value).0;
        self.bytes(number, &entry)
    }
}

fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let meta = Writer::default().text(1, api_version).text(2, kind).0;
    let unknown = Writer::default()
        .bytes(1, &meta)
        .bytes(2, message)
        .text(3, "")
        .text(4, "")
        .0;
    [&MAGIC[..], &unknown].concat()
}

#[test]
fn a_config_map_reads_as_its_json() {
    let metadata = Writer::default()
        .text(1, "a")
        .text(2, "")
        .text(3, "ns")
        .text(4, "")
        .text(5, "")
        .text(6, "")
        .number(7, 0)
        .bytes(8, &[])
        .entry(11, "k", "v")
        .0;
    let message = Writer::default()
        .bytes(1, &metadata)
        .entry(2, "x", "1")
        .entry(2, "y", "")
        .0;
    let value = to_json(&enveloped("v1", "ConfigMap", &message), ("", "")).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "labels": {"k": "v"}}, "data": {"x": "1", "y": ""}});
    assert_eq!(value, expected);
}

#[test]
fn zero_replicas_are_kept_and_plain_zeros_dropped() {
    let spec = Writer::default().number(1, 0).number(5, 0).number(7, 0).0;
    let message = Writer::default().bytes(1, &[]).bytes(2, &spec).0;
    let value = to_json(&enveloped("apps/v1", "Deployment", &message), ("", "")).unwrap();
    assert_eq!(value["spec"], json!({"replicas": 0}));
}

#[test]
fn a_zero_whose_absence_means_another_value_is_kept() {
    let spec = Writer::default().number(1, 0).number(2, 0).0;
    let message = Writer::default().bytes(2, &spec).0;
    let value = to_json(&enveloped("storage.k8s.io/v1", "CSIDriver", &message), ("", "")).unwrap();
    assert_eq!(value["spec"], json!({"attachRequired": false, "podInfoOnMount": false}));
    // HorizontalPodAutoscalerSpec.behavior.scaleDown.stabilizationWindowSeconds
    let rules = Writer::default().number(3, 0).0;
    let behavior = Writer::default().bytes(2, &rules).0;
    let message = Writer::default().bytes(2, &Writer::default().bytes(5, &behavior).0).0;
    let value = to_json(
        &enveloped("autoscaling/v2", "HorizontalPodAutoscaler", &message),
        ("", ""),
    )
    .unwrap();
    let kept = &value["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"];
    assert_eq!(*kept, json!(0), "{value}");
}

#[test]
fn a_budget_of_zero_is_kept() {
    let zero = Writer::default().number(1, 0).number(2, 0).text(3, "").0;
    let message = Writer::default().bytes(2, &Writer::default().bytes(3, &zero).0).0;
    let value = to_json(&enveloped("policy/v1", "PodDisruptionBudget", &message), ("", "")).unwrap();
    assert_eq!(value["spec"], json!({"maxUnavailable": 0}));
}

#[test]
fn embedded_structs_are_part_of_their_parent() {
    let secret = Writer::default().text(1, "s").0;
    let source = Writer::default().bytes(6, &secret).0;
    let volume = Writer::default().text(1, "v").bytes(2, &source).0;
    let key = Writer::default()
        .bytes(1, &Writer::default().text(1, "cm").0)
        .text(2, "k")
        .0;
    let from = Writer::default().bytes(3, &key).0;
    let env = Writer::default().text(1, "E").text(2, "").bytes(3, &from).0;
    let container = Writer::default().text(1, "c").bytes(7, &env).0;
    let spec = Writer::default().bytes(1, &volume).bytes(2, &container).0;
    let message = Writer::default().bytes(2, &spec).0;
    let value = to_json(&enveloped("v1", "Pod", &message), ("", "")).unwrap();
    assert_eq!(
        value["spec"]["volumes"],
        json!([{"name": "v", "secret": {"secretName": "s"}}])
    );
    assert_eq!(
        value["spec"]["containers"][0]["env"],
        json!([{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}])
    );
}

#[test]
fn leases_keep_microseconds_and_delete_options_decode_in_every_group() {
    let time = Writer::default().number(1, 1_700_000_000).number(2, 5000).0;
    let spec = Writer::default().text(1, "me").number(2, 60).bytes(4, &time).0;
    let value = to_json(
        &enveloped("coordination.k8s.io/v1", "Lease", &Writer::default().bytes(2, &spec).0),
        ("", ""),
    )
    .unwrap();
    assert_eq!(
        value["spec"],
        json!({"holderIdentity": "me", "leaseDurationSeconds": 60, "renewTime": "2023-11-14T22:13:20.000005Z"})
    );
    let options = Writer::default().number(1, 0).text(4, "Background").0;
    let value = to_json(&enveloped("apps/v1", "DeleteOptions", &options), ("", "")).unwrap();
    assert_eq!(
        (&value["gracePeriodSeconds"], &value["propagationPolicy"]),
        (&json!(0), &json!("Background"))
    );
}

#[test]
fn certificate_requests_keep_acronyms_and_bytes() {
    let spec = Writer::default()
        .bytes(1, b"pem")
        .text(7, "a.b/c")
        .number(8, 0)
        .text(2, "")
        .text(5, "client auth")
        .0;
    let message = Writer::default().bytes(2, &spec).0;
    let value = to_json(
        &enveloped("certificates.k8s.io/v1", "CertificateSigningRequest", &message),
        ("", ""),
    )
    .unwrap();
    assert_eq!(
        value["spec"],
        json!({"request": "cGVt", "signerName": "a.b/c", "expirationSeconds": 0, "usages": ["client auth"]})
    );
    let service = Writer::default().bytes(2, &Writer::default().text(3, "10.0.0.9").0).0;
    let value = to_json(&enveloped("v1", "Service", &service), ("", "")).unwrap();
    assert_eq!(value["spec"]["clusterIP"], "10.0.0.9");
}

#[test]
fn the_schemas_of_a_definition_read_as_json_schemas() {
    let raw = |it: &[u8]| Writer::default().bytes(1, it).0;
    let number = Writer::default()
        .text(5, "integer")
        .bytes(8, &raw(b"7"))
        .bytes(20, &raw(b"7"))
        .bytes(20, &raw(b"8"))
        .0;
    let list = Writer::default()
        .text(5, "array")
        .bytes(24, &Writer::default().bytes(1, &number).0)
        .0;
    let any = Writer::default()
        .text(5, "object")
        .bytes(30, &Writer::default().number(1, 1).0)
        .0;
    let none = Writer::default()
        .text(5, "object")
        .bytes(30, &Writer::default().number(1, 0).0)
        .0;
    let map = Writer::default()
        .text(5, "object")
        .bytes(30, &Writer::default().number(1, 1).bytes(2, &number).0)
        .0;
    let mut schema = Writer::default().text(5, "object");
    for (name, property) in [
        ("number", &number),
        ("list", &list),
        ("any", &any),
        ("none", &none),
        ("map", &map),
    ] {
        schema = schema.bytes(29, &Writer::default().text(1, name).bytes(2, property).0);
    }
    let validation = Writer::default().bytes(1, &schema.0).0;
    let version = Writer::default()
        .text(1, "v1")
        .number(2, 1)
        .number(3, 1)
        .bytes(4, &validation)
        .0;
    let message = Writer::default()
        .bytes(2, &Writer::default().text(1, "a.b").bytes(7, &version).0)
        .0;
    let value = to_json(
        &enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", &message),
        ("", ""),
    )
    .unwrap();
    let number = json!({"type": "integer", "default": 7, "enum": [7, 8]});
    assert_eq!(
        value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"],
        json!({
            "number": number, "list": {"type": "array", "items": number},
            "any": {"type": "object", "additionalProperties": true},
            "none": {"type": "object", "additionalProperties": false},
            "map": {"type": "object", "additionalProperties": number},
        })
    );
}

#[test]
fn what_is_no_protobuf_is_refused() {
    assert_eq!(to_json(b"{\"a\": 1}", ("", "")), Err(Error::Prefix));
    let mut whole = enveloped("v1", "ConfigMap", &Writer::default().bytes(1, b"\x0a\x01a").0);
    whole.truncate(whole.len() - 6);
    assert!(to_json(&whole, ("", "")).is_err());
    assert!(matches!(
        to_json(&enveloped("x.io/v1", "Widget", &[]), ("", "")),
        Err(Error::UnknownKind { .. })
    ));
}

/// A ControllerRevision with these bytes as its data, which may be a body again.
fn revision(data: &[u8]) -> Vec<u8> {
    let kind = Writer::default().text(1, "apps/v1").text(2, "ControllerRevision").0;
    let raw = Writer::default().bytes(1, data).0;
    let revision = Writer::default().bytes(2, &raw).0;
    [MAGIC.to_vec(), Writer::default().bytes(1, &kind).bytes(2, &revision).0].concat()
}

#[test]
fn bodies_in_bodies_end_somewhere() {
    let mut body = b"{}".to_vec();
    for _ in 0..2000 {
        body = revision(&body);
    }
    assert_eq!(to_json(&body, ("apps/v1", "ControllerRevision")), Err(Error::TooDeep));
    let twice = to_json(&revision(&revision(b"{\"a\":1}")), ("", "")).unwrap();
    assert_eq!(twice["data"]["data"], json!({"a": 1}));
}

#[test]
fn json_in_a_body_is_no_deeper_than_json() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(to_json(&revision(nested(100).as_bytes()), ("", "")).is_ok());
    // Of itself it could be read, but the object around it could not be.
    assert_eq!(
        to_json(&revision(nested(127).as_bytes()), ("", "")),
        Err(Error::TooDeep)
    );
}
