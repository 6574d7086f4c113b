//! Events: what happened to an object, for people. Told in order by one task, so that nobody waits for a write.

use crate::times;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::collections::HashMap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// How many events are remembered, to count a repetition instead of telling it again.
const REMEMBERED_MAX: usize = 1024;

/// Tells events. Cloning shares it.
#[derive(Clone)]
pub struct Recorder {
    told: UnboundedSender<Told>,
}

/// Whether an event is news or trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

struct Told {
    about: ObjectReference,
    component: &'static str,
    kind: EventType,
    reason: &'static str,
    message: String,
}

/// The reference of an object in an event.
pub fn reference<K>(object: &K) -> ObjectReference
where
    K: Resource,
    K::DynamicType: Default,
{
    object.object_ref(&K::DynamicType::default())
}

impl Recorder {
    /// Starts the task that writes them; `host` is the node that the events name as their source.
    pub fn start(client: Client, host: String, cancel: CancellationToken) -> Self {
        let (told, heard) = unbounded_channel();
        tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = write_all(client, host, heard) => {}
            }
        });
        Self { told }
    }

    /// Tells one event.
    pub fn tell(
        &self,
        about: ObjectReference,
        component: &'static str,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let told = Told {
            about,
            component,
            kind,
            reason,
            message: message.into(),
        };
        // Nobody listens any more when the node stops.
        let _ = self.told.send(told);
    }
}

type Same = (Option<String>, Option<String>, &'static str, String);

async fn write_all(client: Client, host: String, mut heard: UnboundedReceiver<Told>) {
    let mut known: HashMap<Same, (String, i32)> = HashMap::new();
    while let Some(told) = heard.recv().await {
        let namespace = told.about.namespace.clone().unwrap_or_else(|| "default".into());
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let same = (
            told.about.uid.clone(),
            told.about.field_path.clone(),
            told.reason,
            told.message.clone(),
        );
        if let Some((name, count)) = known.get_mut(&same) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": times::now()});
            let params = PatchParams::default();
            if api.patch(name, &params, &Patch::Merge(&patch)).await.is_ok() {
                continue;
            }
        }
        let event = event(&told, &host, &namespace);
        match api.create(&PostParams::default(), &event).await {
            Ok(made) => {
                if known.len() >= REMEMBERED_MAX {
                    known.clear();
                }
                known.insert(same, (made.metadata.name.unwrap_or_default(), 1));
            }
            // An event is for people; what it tells has happened all the same. Its namespace may be going away.
            Err(error) => tracing::debug!(reason = told.reason, %error, "could not tell an event"),
        }
    }
}

fn event(told: &Told, host: &str, namespace: &str) -> Event {
    let now = times::now();
    let about = told.about.name.clone().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{about}.{:016x}", rand::random::<u64>())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        involved_object: told.about.clone(),
        type_: Some(format!("{:?}", told.kind)),
        reason: Some(told.reason.to_owned()),
        message: Some(told.message.clone()),
        source: Some(EventSource {
            component: Some(told.component.to_owned()),
            host: (told.component == "kubelet").then(|| host.to_owned()),
        }),
        reporting_component: Some(told.component.to_owned()),
        reporting_instance: (told.component == "kubelet").then(|| host.to_owned()),
        ..Event::default()
    }
}
