//! Which Services of clusters may be reached: the ConfigMap `cluster-proxy-exposed-services`. What is not in it may
//! not. Upstream: cluster-proxy `pkg/userserver/exposedservices.go`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::target::ServiceTarget;

/// What may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    service: String,
    #[serde(default)]
    port: Option<Port>,
    #[serde(default)]
    protocol: Option<String>,
}

/// A number or a name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Port {
    Number(u16),
    Text(String),
}

impl AllowList {
    /// Reads the data of the ConfigMap: each key holds a list.
    ///
    /// # Errors
    /// What is wrong with it. One broken key breaks all: the last good list stays.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut all = Vec::new();
        for (key, text) in data {
            if text.trim().is_empty() {
                continue;
            }
            let entries: Vec<Entry> = serde_saphyr::from_str(text).map_err(|error| format!("{key}: {error}"))?;
            for (index, entry) in entries.into_iter().enumerate() {
                let missing = |field: &str| Err(format!("{key}: entry[{index}]: {field} is required"));
                if entry.namespace.is_empty() {
                    return missing("namespace");
                }
                if entry.service.is_empty() {
                    return missing("service");
                }
                if let Some(protocol) = entry.protocol.as_deref()
                    && !matches!(protocol, "" | "http" | "https")
                {
                    return Err(format!(
                        "{key}: entry[{index}]: protocol has to be http or https, not {protocol:?}"
                    ));
                }
                all.push(entry);
            }
        }
        Ok(Self(all))
    }

    /// Whether a Service may be reached. The API server needs no entry.
    pub fn allows(&self, target: &ServiceTarget) -> bool {
        target.is_api_server() || self.0.iter().any(|it| it.is(target))
    }
}

impl Entry {
    fn is(&self, target: &ServiceTarget) -> bool {
        let port = match &self.port {
            None => true,
            Some(Port::Number(number)) => number.to_string() == target.port,
            Some(Port::Text(text)) => text.is_empty() || *text == target.port,
        };
        let protocol = self.protocol.as_deref().unwrap_or_default();
        self.namespace == target.namespace
            && self.service == target.service
            && port
            && (protocol.is_empty() || protocol == target.proto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AllowList, String> {
        AllowList::read(&[("a".to_owned(), text.to_owned()), ("empty".to_owned(), String::new())].into())
    }

    fn target(port: &str, proto: &str) -> ServiceTarget {
        ServiceTarget {
            proto: proto.to_owned(),
            namespace: "ns".to_owned(),
            service: "web".to_owned(),
            port: port.to_owned(),
        }
    }

    #[test]
    fn what_is_not_listed_is_denied() {
        let none = AllowList::default();
        assert!(!none.allows(&target("80", "http")));
        assert!(none.allows(&ServiceTarget::api_server()));
        let any = read("- {namespace: ns, service: web}").unwrap();
        assert!(any.allows(&target("80", "http")) && any.allows(&target("1", "https")));
        let one = read("- {namespace: ns, service: web, port: 80, protocol: http}").unwrap();
        assert!(one.allows(&target("80", "http")));
        assert!(!one.allows(&target("81", "http")) && !one.allows(&target("80", "https")));
        assert!(
            read("- {namespace: ns, service: web, port: \"80\"}")
                .unwrap()
                .allows(&target("80", "http"))
        );
    }

    #[test]
    fn a_broken_list_is_told() {
        assert!(
            read("- {namespace: ns}")
                .unwrap_err()
                .ends_with("entry[0]: service is required")
        );
        assert!(
            read("- {service: s}")
                .unwrap_err()
                .ends_with("entry[0]: namespace is required")
        );
        assert!(read("- {namespace: ns, service: web, ports: 1}").is_err());
        assert!(read("- {namespace: ns, namespace: ns, service: web}").is_err());
        assert!(read("- {namespace: ns, service: web, protocol: ftp}").is_err());
        assert!(read("nonsense").is_err());
    }
}
