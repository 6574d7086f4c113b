//! What may name a cluster: it becomes a namespace of the hub, so it must be a DNS label.

use anyhow::{Result, bail};

/// Checks that `name` can name a managed cluster.
pub fn check(name: &str) -> Result<()> {
    if let Some(fault) = fault(name) {
        bail!(
            "{name:?} cannot name a cluster: {fault}; use up to 63 lower-case letters, digits and '-', \
             starting and ending with a letter or digit, for example cluster1"
        );
    }
    Ok(())
}

/// What is wrong with `name` as a DNS label, if anything.
fn fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("it is empty".into());
    }
    if name.len() > 63 {
        return Some(format!("it has {} characters", name.len()));
    }
    if let Some(wrong) = name
        .chars()
        .find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-'))
    {
        return Some(format!("it contains {wrong:?}"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        return Some("it starts or ends with '-'".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_is_a_dns_label() {
        for good in ["cluster1", "a", "0", "eu-west-1", &"a".repeat(63)] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "Cluster", "a.b", "a_b", "-a", "a-", "a/b", "é", &"a".repeat(64)] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_sentence_names_the_cluster_the_fault_and_the_fix() {
        let error = check("Cluster_1").unwrap_err().to_string();
        assert!(
            error.starts_with("\"Cluster_1\" cannot name a cluster: it contains 'C'; use up to 63"),
            "{error}"
        );
    }
}
