//! Addresses that programs read differently, or that are not written as they are compared.

use crate::builtin_validation::plain_bits;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

/// An address as Go's older parsers read it: leading zeros are nothing.
fn sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let parts: Vec<u8> = text
        .split('.')
        .map(|it| it.trim_start_matches('0'))
        .map(|it| if it.is_empty() { Ok(0) } else { it.parse() })
        .collect::<Result<_, _>>()
        .ok()?;
    <[u8; 4]>::try_from(parts).ok().map(|it| Ipv4Addr::from(it).into())
}

pub(super) fn addresses(all: &[Value], place: &str, warnings: &mut Vec<String>) {
    for (index, one) in all.iter().enumerate() {
        address(one.as_str().unwrap_or_default(), &format!("{place}[{index}]"), warnings);
    }
}

/// Warnings of an address.
pub(super) fn address(text: &str, field: &str, warnings: &mut Vec<String>) {
    let Some(read) = sloppy(text) else { return };
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(it)) if it.to_ipv4_mapped().is_none() => {
            let canonical = it.to_string();
            if canonical != text {
                warnings.push(format!(
                    "{field}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})"
                ));
            }
        }
        Ok(IpAddr::V4(_)) => {}
        _ => warnings.push(format!(
            "{field}: non-standard IP address {text:?} is invalid: use \"{}\"",
            read.to_canonical()
        )),
    }
}

/// The first address of the range that has `bits` leading bits.
fn first(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Ipv4Addr::from(u32::from(it) & mask).into()
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(it) & mask).into()
        }
    }
}

/// Warnings of a range of addresses.
pub(super) fn range(text: &str, field: &str, warnings: &mut Vec<String>) {
    let Some((written, bits)) = text.split_once('/') else {
        return;
    };
    let (Some(address), Some(bits)) = (sloppy(written), plain_bits(bits)) else {
        return;
    };
    let (width, mapped) = match address {
        IpAddr::V4(_) => (32, false),
        IpAddr::V6(it) => (128, it.to_ipv4_mapped().is_some()),
    };
    if bits > width {
        return;
    }
    let start = first(address, bits);
    let before = warnings.len();
    if start != address {
        warnings.push(format!(
            "{field}: CIDR value {text:?} is ambiguous in this context (should be \"{start}/{bits}\" or \"{address}/{width}\"?)"
        ));
    }
    if mapped || written.parse::<IpAddr>().is_err() {
        warnings.push(format!(
            "{field}: non-standard CIDR value {text:?} is invalid: use \"{start}/{bits}\""
        ));
    }
    let canonical = format!("{address}/{bits}");
    if warnings.len() == before && address.is_ipv6() && canonical != text {
        warnings.push(format!(
            "{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
}
