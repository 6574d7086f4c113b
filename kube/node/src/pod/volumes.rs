//! What the volumes of a pod hold.

use super::{
    Problem,
    fields::{self, Capacity},
    files::{File, Files},
};
use crate::references::{Content, Known, Reference, ReferenceKind};
use bytes::Bytes;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume, VolumeProjection};
use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

/// What a volume is on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A directory with exactly these files.
    Files(Files),
    /// A directory of the pod's own.
    Empty,
    /// A directory that outlives the pod, by the name of its claim.
    Claim(String),
    /// Something that is there already, and the type that it must have.
    Host(PathBuf, String),
}

/// A token that a volume wants: its audience and how long it is valid.
pub type TokenWish = (Option<String>, i64);

/// What volumes are made of.
pub struct Sources<'a> {
    pub pod: &'a Pod,
    /// Its address.
    pub ip: Ipv4Addr,
    pub node: Capacity,
    pub look_up: &'a dyn Fn(&Reference) -> Known,
    pub token: &'a dyn Fn(&TokenWish) -> Option<String>,
}

fn mode(own: Option<i32>, default: Option<i32>) -> u32 {
    u32::try_from(own.or(default).unwrap_or(0o644)).unwrap_or(0o644)
}

impl Sources<'_> {
    fn object(&self, kind: ReferenceKind, name: &str, optional: Option<bool>) -> Result<Option<Arc<Content>>, Problem> {
        let reference = Reference {
            kind,
            namespace: self.pod.metadata.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        };
        match (self.look_up)(&reference) {
            Known::Here(content) => Ok(Some(content)),
            Known::NotYet => Err(Problem::NotYet),
            Known::Missing if optional.unwrap_or_default() => Ok(None),
            Known::Missing => Err(Problem::Mount(format!("{reference} not found"))),
        }
    }

    /// The keys of an object as files: all of them, or the ones that are listed.
    fn keys(
        &self,
        kind: ReferenceKind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        default: Option<i32>,
    ) -> Result<Files, Problem> {
        let Some(content) = self.object(kind, name, optional)? else {
            return Ok(Files::new());
        };
        let file = |bytes: &Bytes, own| File {
            bytes: bytes.clone(),
            mode: mode(own, default),
        };
        let Some(items) = items.filter(|it| !it.is_empty()) else {
            return Ok(content
                .data
                .iter()
                .map(|(key, bytes)| (key.clone(), file(bytes, None)))
                .collect());
        };
        let mut files = Files::new();
        for item in items {
            match content.data.get(&item.key) {
                Some(bytes) => {
                    files.insert(item.path.clone(), file(bytes, item.mode));
                }
                None if optional.unwrap_or_default() => {}
                None => {
                    return Err(Problem::Mount(format!(
                        "references non-existent {} key: {}",
                        if kind == ReferenceKind::Secret {
                            "secret"
                        } else {
                            "config"
                        },
                        item.key
                    )));
                }
            }
        }
        Ok(files)
    }

    fn downward(&self, items: Option<&[DownwardAPIVolumeFile]>, default: Option<i32>) -> Result<Files, Problem> {
        let mut files = Files::new();
        for item in items.into_iter().flatten() {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(it), _) => fields::field(self.pod, self.ip, &it.field_path),
                (None, Some(it)) => {
                    let spec = self.pod.spec.as_ref();
                    let containers = spec.map(|it| it.containers.as_slice()).unwrap_or_default();
                    let named = containers
                        .iter()
                        .find(|one| Some(&one.name) == it.container_name.as_ref());
                    named.and_then(|container| fields::resource(container, it, self.node))
                }
                (None, None) => None,
            };
            let value = value.ok_or_else(|| Problem::Mount(format!("{} refers to no field of a pod", item.path)))?;
            let file = File {
                bytes: value.into(),
                mode: mode(item.mode, default),
            };
            files.insert(item.path.clone(), file);
        }
        Ok(files)
    }

    fn projection(&self, source: &VolumeProjection, default: Option<i32>) -> Result<Files, Problem> {
        if let Some(it) = &source.config_map {
            return self.keys(
                ReferenceKind::ConfigMap,
                &it.name,
                it.items.as_deref(),
                it.optional,
                default,
            );
        }
        if let Some(it) = &source.secret {
            return self.keys(
                ReferenceKind::Secret,
                &it.name,
                it.items.as_deref(),
                it.optional,
                default,
            );
        }
        if let Some(it) = &source.downward_api {
            return self.downward(it.items.as_deref(), default);
        }
        if let Some(it) = &source.service_account_token {
            let wish = (it.audience.clone(), it.expiration_seconds.unwrap_or(3600));
            let token = (self.token)(&wish).ok_or(Problem::NotYet)?;
            let file = File {
                bytes: token.into(),
                // Whatever the default: a token is for its pod alone.
                mode: mode(None, default) & 0o700,
            };
            return Ok(Files::from([(it.path.clone(), file)]));
        }
        Err(Problem::Mount(
            "a projected source is not supported by this node".into(),
        ))
    }

    /// What a volume is to be.
    ///
    /// # Errors
    /// What is missing or not supported.
    pub fn wanted(&self, volume: &Volume) -> Result<Wanted, Problem> {
        let files = if let Some(it) = &volume.config_map {
            self.keys(
                ReferenceKind::ConfigMap,
                &it.name,
                it.items.as_deref(),
                it.optional,
                it.default_mode,
            )?
        } else if let Some(it) = &volume.secret {
            let name = it.secret_name.as_deref().unwrap_or_default();
            self.keys(
                ReferenceKind::Secret,
                name,
                it.items.as_deref(),
                it.optional,
                it.default_mode,
            )?
        } else if let Some(it) = &volume.downward_api {
            self.downward(it.items.as_deref(), it.default_mode)?
        } else if let Some(it) = &volume.projected {
            let mut files = Files::new();
            for source in it.sources.iter().flatten() {
                files.extend(self.projection(source, it.default_mode)?);
            }
            files
        } else if volume.empty_dir.is_some() || volume.ephemeral.is_some() {
            return Ok(Wanted::Empty);
        } else if let Some(it) = &volume.persistent_volume_claim {
            return Ok(Wanted::Claim(it.claim_name.clone()));
        } else if let Some(it) = &volume.host_path {
            return Ok(Wanted::Host(
                it.path.clone().into(),
                it.type_.clone().unwrap_or_default(),
            ));
        } else {
            return Err(Problem::Mount(format!(
                "volume {:?} is of a kind that this node does not have",
                volume.name
            )));
        };
        Ok(Wanted::Files(files))
    }
}

/// What the volumes refer to.
pub fn references(pod: &Pod) -> Vec<Reference> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let mut all = Vec::new();
    let mut add = |kind, name: &str| {
        all.push(Reference {
            kind,
            namespace: namespace.clone(),
            name: name.to_owned(),
        });
    };
    for volume in pod.spec.iter().flat_map(|it| it.volumes.iter().flatten()) {
        volume
            .config_map
            .iter()
            .for_each(|it| add(ReferenceKind::ConfigMap, &it.name));
        volume
            .secret
            .iter()
            .for_each(|it| add(ReferenceKind::Secret, it.secret_name.as_deref().unwrap_or_default()));
        for source in volume.projected.iter().flat_map(|it| it.sources.iter().flatten()) {
            source
                .config_map
                .iter()
                .for_each(|it| add(ReferenceKind::ConfigMap, &it.name));
            source.secret.iter().for_each(|it| add(ReferenceKind::Secret, &it.name));
        }
    }
    all
}

/// The tokens that the volumes want.
pub fn token_wishes(pod: &Pod) -> Vec<TokenWish> {
    let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    let sources = volumes.flat_map(|it| it.projected.iter().flat_map(|it| it.sources.iter().flatten()));
    sources
        .filter_map(|it| it.service_account_token.as_ref())
        .map(|it| (it.audience.clone(), it.expiration_seconds.unwrap_or(3600)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted(volume: serde_json::Value) -> Result<Wanted, Problem> {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}}})).unwrap();
        let look_up = |it: &Reference| match it.name.as_str() {
            "here" => {
                let data = [("a", "1"), ("b", "2")]
                    .map(|(key, it)| (key.to_owned(), Bytes::from(it)))
                    .into();
                Known::Here(Arc::new(Content { data, automount: None }))
            }
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
            token: &|wish| Some(format!("token for {}", wish.0.as_deref().unwrap_or("the API server"))),
        };
        sources.wanted(&serde_json::from_value(volume).unwrap())
    }

    fn text(wanted: Result<Wanted, Problem>) -> String {
        match wanted {
            Ok(Wanted::Files(files)) => {
                let show = |(path, it): (&String, &File)| {
                    format!("{path}={}({:o})", String::from_utf8_lossy(&it.bytes), it.mode)
                };
                files.iter().map(show).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn keys_become_files() {
        let table = [
            (json!({"name": "v", "configMap": {"name": "here"}}), "a=1(644) b=2(644)"),
            (
                json!({"name": "v", "secret": {"secretName": "here", "defaultMode": 256, "items": [{"key": "b", "path": "x/y", "mode": 420}]}}),
                "x/y=2(644)",
            ),
            (
                json!({"name": "v", "secret": {"secretName": "gone", "optional": true}}),
                "",
            ),
            (
                json!({"name": "v", "secret": {"secretName": "gone"}}),
                "Err(Mount(\"secret \\\"gone\\\" not found\"))",
            ),
            (
                json!({"name": "v", "configMap": {"name": "here", "items": [{"key": "c", "path": "c"}]}}),
                "Err(Mount(\"references non-existent config key: c\"))",
            ),
            (
                json!({"name": "v", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"path": "token"}}, {"serviceAccountToken": {"path": "v", "audience": "vault"}},
                    {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}),
                "l=a=\"b\"(644) token=token for the API server(600) v=token for vault(600)",
            ),
            (json!({"name": "v", "emptyDir": {}}), "Ok(Empty)"),
            (
                json!({"name": "v", "nfs": {"server": "s", "path": "/"}}),
                "Err(Mount(\"volume \\\"v\\\" is of a kind that this node does not have\"))",
            ),
        ];
        for (volume, want) in table {
            assert_eq!(text(wanted(volume.clone())), want, "{volume}");
        }
    }
}
