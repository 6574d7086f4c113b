//! Addresses, written so that nobody reads them otherwise.

use kube_store::status::FieldError;
use serde_json::json;
use std::net::IpAddr;

/// Errors of an address. Leading zeros are refused: some read them as octal numbers.
pub fn address(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    if text.parse::<IpAddr>().is_err() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(field, &json!(text), detail));
    }
}

/// Errors of an address that others cannot reach.
pub fn reachable(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    if text.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback()) {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.push(FieldError::invalid(field, &json!(text), detail));
    }
    reachable_here(text, field, errors);
}

/// Errors of an address of what is behind a Service. Upstream refuses the loopback range here too, for there each pod
/// has its own. Ours are those of one machine, where the servers that Services lead to run, this one first.
pub fn reachable_here(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    let Ok(address) = text.parse::<IpAddr>() else { return };
    let detail = match address.to_canonical() {
        it if it.is_unspecified() => format!("may not be unspecified ({text})"),
        IpAddr::V4(it) if it.is_link_local() => LINK_LOCAL.to_owned(),
        IpAddr::V6(it) if it.is_unicast_link_local() => LINK_LOCAL.to_owned(),
        IpAddr::V4(it) if it.octets()[..3] == [224, 0, 0] => LINK_LOCAL_MULTICAST.to_owned(),
        IpAddr::V6(it) if it.segments()[0] & 0xff0f == 0xff02 => LINK_LOCAL_MULTICAST.to_owned(),
        _ => return,
    };
    errors.push(FieldError::invalid(field, &json!(text), detail));
}

const LINK_LOCAL: &str = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
const LINK_LOCAL_MULTICAST: &str = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
