//! The environment of a container.

use super::{
    Problem,
    expand::{Room, TooLong, expand},
    fields::{self, Capacity},
};
use crate::references::{Content, Known, Reference, ReferenceKind};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Pod};
use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

/// What the environment is made of.
pub struct Sources<'a> {
    pub pod: &'a Pod,
    /// Its address.
    pub ip: Ipv4Addr,
    pub node: Capacity,
    pub look_up: &'a dyn Fn(&Reference) -> Known,
}

impl Sources<'_> {
    fn namespace(&self) -> String {
        self.pod.metadata.namespace.clone().unwrap_or_default()
    }

    /// The object, or `None` when it is missing and may be.
    fn object(&self, kind: ReferenceKind, name: &str, optional: bool) -> Result<Option<Arc<Content>>, Problem> {
        let reference = Reference {
            kind,
            namespace: self.namespace(),
            name: name.to_owned(),
        };
        match (self.look_up)(&reference) {
            Known::Here(content) => Ok(Some(content)),
            Known::NotYet => Err(Problem::NotYet),
            Known::Missing if optional => Ok(None),
            Known::Missing => Err(Problem::Config(format!("{reference} not found"))),
        }
    }

    fn key(
        &self,
        kind: ReferenceKind,
        name: &str,
        key: &str,
        optional: Option<bool>,
    ) -> Result<Option<String>, Problem> {
        let optional = optional.unwrap_or_default();
        let Some(content) = self.object(kind, name, optional)? else {
            return Ok(None);
        };
        match content.data.get(key) {
            Some(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
            None if optional => Ok(None),
            None => Err(Problem::Config(format!(
                "couldn't find key {key} in {kind:?} {}/{name}",
                self.namespace()
            ))),
        }
    }

    fn source(&self, container: &Container, source: &EnvVarSource) -> Result<Option<String>, Problem> {
        if let Some(it) = &source.config_map_key_ref {
            return self.key(ReferenceKind::ConfigMap, &it.name, &it.key, it.optional);
        }
        if let Some(it) = &source.secret_key_ref {
            return self.key(ReferenceKind::Secret, &it.name, &it.key, it.optional);
        }
        if let Some(it) = &source.field_ref {
            let value = fields::field(self.pod, self.ip, &it.field_path);
            return value
                .map(Some)
                .ok_or_else(|| Problem::Config(format!("unsupported fieldPath: {}", it.field_path)));
        }
        if let Some(it) = &source.resource_field_ref {
            let name = it.container_name.as_deref().filter(|it| !it.is_empty());
            let spec = self.pod.spec.as_ref();
            let named = name.and_then(|name| spec?.containers.iter().find(|it| it.name == name));
            let value = fields::resource(named.unwrap_or(container), it, self.node);
            return value
                .map(Some)
                .ok_or_else(|| Problem::Config(format!("unsupported container resource: {}", it.resource)));
        }
        Err(Problem::Config(
            "a source of a variable is not supported by this node".into(),
        ))
    }
}

/// All variables of a container, on top of those that every container has.
///
/// # Errors
/// What is missing, or has no room.
pub fn resolve(
    container: &Container,
    mut variables: BTreeMap<String, String>,
    sources: &Sources<'_>,
    room: &mut Room,
) -> Result<BTreeMap<String, String>, Problem> {
    for (at, from) in container.env_from.iter().flatten().enumerate() {
        let (kind, name, optional) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(it), _) => (ReferenceKind::ConfigMap, &it.name, it.optional),
            (None, Some(it)) => (ReferenceKind::Secret, &it.name, it.optional),
            (None, None) => continue,
        };
        let content = sources.object(kind, name, optional.unwrap_or_default())?;
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in content.iter().flat_map(|it| &it.data) {
            let name = format!("{prefix}{key}");
            if is_name(&name) {
                let value = String::from_utf8_lossy(value);
                room.take(&value).map_err(|it| too_long("envFrom", at, it))?;
                variables.insert(name, value.into_owned());
            }
        }
    }
    for (at, variable) in container.env.iter().flatten().enumerate() {
        let EnvVar {
            name,
            value,
            value_from,
        } = variable;
        let value = match value_from {
            Some(source) => {
                let value = sources.source(container, source)?;
                value.iter().try_for_each(|it| room.take(it)).map(|()| value)
            }
            None => {
                let known = |it: &str| variables.get(it).map(String::as_str);
                expand(value.as_deref().unwrap_or_default(), room, known).map(Some)
            }
        };
        let value = value.map_err(|it| too_long("env", at, it))?;
        if let Some(value) = value.filter(|_| is_name(name)) {
            variables.insert(name.clone(), value);
        }
    }
    // A process cannot be given a NUL; Kubernetes' runtimes fail on it, we leave it out.
    variables.values_mut().for_each(|it| it.retain(|it| it != '\0'));
    Ok(variables)
}

fn too_long(list: &str, at: usize, error: TooLong) -> Problem {
    Problem::Config(format!("{list}[{at}]: {error}"))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// What the environment refers to.
pub fn references(namespace: &str, container: &Container) -> Vec<Reference> {
    let mut all = Vec::new();
    let mut add = |kind, name: &str| {
        all.push(Reference {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    };
    for from in container.env_from.iter().flatten() {
        from.config_map_ref
            .iter()
            .for_each(|it| add(ReferenceKind::ConfigMap, &it.name));
        from.secret_ref
            .iter()
            .for_each(|it| add(ReferenceKind::Secret, &it.name));
    }
    for source in container.env.iter().flatten().filter_map(|it| it.value_from.as_ref()) {
        source
            .config_map_key_ref
            .iter()
            .for_each(|it| add(ReferenceKind::ConfigMap, &it.name));
        source
            .secret_key_ref
            .iter()
            .for_each(|it| add(ReferenceKind::Secret, &it.name));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resolved(container: serde_json::Value) -> Result<BTreeMap<String, String>, Problem> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}})).unwrap();
        let container: Container = serde_json::from_value(container).unwrap();
        let look_up = |it: &Reference| match (it.kind, it.name.as_str()) {
            (ReferenceKind::ConfigMap, "m") => {
                let data = [("A", "1"), ("B", "2")]
                    .map(|(key, it)| (key.to_owned(), it.into()))
                    .into();
                Known::Here(Arc::new(Content { data, automount: None }))
            }
            (_, "later") => Known::NotYet,
            _ => Known::Missing,
        };
        let sources = Sources {
            pod: &pod,
            ip: Ipv4Addr::LOCALHOST,
            node: Capacity {
                cores: 1,
                memory_bytes: 1,
            },
            look_up: &look_up,
        };
        let given = BTreeMap::from([("HOST".into(), "h".into())]);
        resolve(&container, given, &sources, &mut Room::default())
    }

    #[test]
    fn later_variables_win_and_see_earlier_ones() {
        let variables = resolved(json!({"name": "c",
            "envFrom": [{"configMapRef": {"name": "m"}}, {"prefix": "P_", "configMapRef": {"name": "m"}},
                        {"secretRef": {"name": "gone", "optional": true}}],
            "env": [{"name": "A", "value": "x"}, {"name": "C", "value": "$(A)-$(B)-$(HOST)-$(D)"}, {"name": "D", "value": "d"},
                    {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "O", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k", "optional": true}}}]}));
        let variables = variables.unwrap();
        let all: Vec<_> = variables.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(all.join(" "), "A=x B=2 C=x-2-h-$(D) D=d HOST=h N=p P_A=1 P_B=2");
    }

    #[test]
    fn variables_that_double_each_other_hit_a_size_limit() {
        let doubled = |at: usize| match at {
            0 => json!({"name": "A0", "value": "0123456789"}),
            at => json!({"name": format!("A{at}"), "value": format!("$(A{0})$(A{0})", at - 1)}),
        };
        let env: Vec<_> = (0..40).map(doubled).collect();
        let error = Problem::Config(format!("env[19]: {TooLong}"));
        assert_eq!(resolved(json!({"name": "c", "env": env})), Err(error));
    }

    #[test]
    fn what_is_missing_is_named_as_a_kubelet_does() {
        let of =
            |source: serde_json::Value| resolved(json!({"name": "c", "env": [{"name": "A", "valueFrom": source}]}));
        let table = [
            (
                json!({"secretKeyRef": {"name": "s", "key": "k"}}),
                "secret \"s\" not found",
            ),
            (
                json!({"configMapKeyRef": {"name": "m", "key": "k"}}),
                "couldn't find key k in ConfigMap n/m",
            ),
            (json!({"fieldRef": {"fieldPath": "x"}}), "unsupported fieldPath: x"),
        ];
        for (source, want) in table {
            assert_eq!(of(source), Err(Problem::Config(want.into())));
        }
        assert_eq!(
            of(json!({"secretKeyRef": {"name": "later", "key": "k"}})),
            Err(Problem::NotYet)
        );
    }
}
