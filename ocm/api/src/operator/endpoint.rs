//! Where a hub's servers can be reached from outside.

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One way into the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointExposure {
    /// What is spoken there.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "grpc"))]
    pub protocol: EndpointProtocol,
    /// What it is for.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub usage: String,
    /// Details of grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Endpoint>,
    /// Details of https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<Endpoint>,
}

/// What is spoken at an endpoint.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndpointProtocol {
    #[default]
    Grpc,
    Https,
}

/// How an endpoint is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// By a name of yours, a load balancer or a route.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "hostname"))]
    pub r#type: EndpointType,
    /// Details of hostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<HostnameConfig>,
    /// Details of loadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerConfig>,
    /// Details of route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteConfig>,
}

/// The ways an endpoint is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndpointType {
    /// By a name that somebody else makes lead there.
    #[default]
    Hostname,
    /// By a Service of type LoadBalancer.
    LoadBalancer,
    /// By an OpenShift route.
    Route,
}

/// A name that leads to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnameConfig {
    /// The name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub host: String,
    /// The certificates to trust there, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub ca_bundle: Option<ByteString>,
}

/// A load balancer in front of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerConfig {
    /// Its name, when the Service's status does not say it.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub host: String,
    /// The certificates to trust there, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub ca_bundle: Option<ByteString>,
}

/// A route to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteConfig {
    /// Its name, when the route's status does not say it.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub host: String,
    /// The certificates to trust there, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub ca_bundle: Option<ByteString>,
}
