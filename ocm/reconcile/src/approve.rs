//! Approving a certificate request, for all who do.

use jiff::Timestamp;
use k8s_openapi::{
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use ocm_api::conditions::csr;

use crate::plan::{self, Plan, Site, Step, Target};

/// What approves the request on the hub, with this reason and message: the condition `Approved`, through `approval`.
pub fn approve(request: &CertificateSigningRequest, reason: &str, message: &str, now: Timestamp) -> Plan {
    let now = Time(now);
    let mut approved = request.clone();
    approved
        .status
        .get_or_insert_default()
        .conditions
        .get_or_insert_default()
        .push(CertificateSigningRequestCondition {
            type_: csr::APPROVED.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(now),
        });
    let target = Target::of(Site::Hub, request);
    let object = plan::typed(&approved, &target.api_resource);
    let mut plan = Plan::new();
    plan.push(Step::Replace {
        target,
        subresource: Some("approval"),
        object,
    });
    plan
}
