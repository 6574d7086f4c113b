//! Events of Git servers: whose repositories have changed is read at once, on the hub and on clusters.
//! Upstream: multicloud-operators-subscription pkg/webhook/listener.

mod event;
mod listener;
mod pending;
pub mod tls;

pub use event::{WebhookEvent, WebhookRefusal, event};
pub use listener::{WebhookListener, serve, serve_on};
pub use pending::{PendingEvents, WebhookEventCount};
pub use tls::WebhookTls;
