//! CertificatePolicy: certificates in Secrets that expire soon, or are not as they should be.
//! Upstream: cert-policy-controller `api/v1/certificatepolicy_types.go`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::configuration_policy::ComplianceHistory;

crate::kind::kind! {
    /// What the certificates in Secrets of a cluster must be like: how long they are still valid, how long they are
    /// valid in all, and for which names.
    pub struct CertificatePolicy { spec: CertificatePolicySpec, status: CertificatePolicyStatus }
    api "policy.open-cluster-management.io" "v1" "certificatepolicies" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// Which certificates, and what they must be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificatePolicySpec {
    /// Certificates are reported, whatever it says: nobody can put them right.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Inform", "inform", "Enforce", "enforce"]))]
    pub remediation_action: String,
    /// The namespaces whose Secrets are looked at.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub namespace_selector: CertificateTarget,
    /// Labels that the Secrets must have.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "labels")]
    pub label_selector: BTreeMap<String, String>,
    /// How much a violation matters to the author.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["low", "Low", "medium", "Medium", "high", "High", "critical", "Critical"]))]
    pub severity: String,
    /// A certificate that expires in less than this Go duration does not comply.
    #[serde(
        rename = "minimumDuration",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = DURATION))]
    pub minimum_duration: String,
    /// A certificate that is valid for longer than this Go duration in all does not comply.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = DURATION))]
    pub maximum_duration: String,
    /// As minimumDuration, for certificates of authorities.
    #[serde(
        rename = "minimumCADuration",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = DURATION))]
    pub minimum_ca_duration: String,
    /// As maximumDuration, for certificates of authorities.
    #[serde(
        rename = "maximumCADuration",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = DURATION))]
    pub maximum_ca_duration: String,
    /// A regular expression of Go that the DNS names of a certificate must match.
    #[serde(
        rename = "allowedSANPattern",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("minLength" = 1))]
    pub allowed_san_pattern: String,
    /// A regular expression of Go that no DNS name of a certificate may match.
    #[serde(
        rename = "disallowedSANPattern",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("minLength" = 1))]
    pub disallowed_san_pattern: String,
}

const DURATION: &str = "^(?:(?:[0-9]+(?:.[0-9])?)(?:h|m|s|(?:ms)|(?:us)|(?:ns)))+$";

fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}})
}

/// Namespaces by their labels and names. Without labels, expressions and `include` it selects none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateTarget {
    /// Patterns of names, as of files.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub include: Vec<String>,
    /// Patterns of names that are left out.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub exclude: Vec<String>,
    /// Labels that they must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// What their labels must be like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

impl CertificateTarget {
    /// Whether it selects nothing, whatever there is.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_none() && self.match_expressions.is_none() && self.include.is_empty()
    }
}

impl JsonSchema for CertificateTarget {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CertificateTarget".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let patterns = |about: &str| {
            json_schema!({
                "description": about,
                "type": "array", "items": { "type": "string", "minLength": 1 }
            })
        };
        let mut schema = crate::schema::label_selector(generator);
        // Upstream copied the two lists of a selector, and not what is said of merging them.
        schema.remove("x-kubernetes-map-type");
        if let Some(properties) = schema.get_mut("properties").and_then(|it| it.as_object_mut()) {
            if let Some(expressions) = properties.get_mut("matchExpressions").and_then(|it| it.as_object_mut()) {
                expressions.remove("x-kubernetes-list-type");
            }
            properties.insert(
                "include".to_owned(),
                patterns("Patterns of names, as of files.").to_value(),
            );
            properties.insert(
                "exclude".to_owned(),
                patterns("Patterns of names that are left out.").to_value(),
            );
        }
        schema
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificatePolicyStatus {
    /// All of it in one word.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "NonCompliant"]))]
    pub compliant: String,
    /// What was found in each namespace; under an empty name that none is selected.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub compliancy_details: BTreeMap<String, CertificateCompliance>,
    /// The last ten compliance messages, the newest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub history: Vec<ComplianceHistory>,
}

/// What was found in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateCompliance {
    /// How many certificates do not comply.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::count")]
    pub non_compliant_certificates: u64,
    /// Which ones, by the name that a label of their Secret gives them, or by that of the Secret.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub non_compliant_certificates_list: BTreeMap<String, ReportedCertificate>,
    /// The same as a text.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
}

/// A certificate that does not comply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedCertificate {
    /// The Secret that it is in.
    #[serde(
        rename = "secretName",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub secret: String,
    /// When it expires, in RFC 3339.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub expiration: String,
    /// In how many nanoseconds it expired, when that was reported.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub expiry: i64,
    /// Whether it is that of an authority.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub ca: bool,
    /// For how many nanoseconds it is valid in all.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub duration: i64,
    /// The DNS names that it is for.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub sans: Vec<String>,
}
