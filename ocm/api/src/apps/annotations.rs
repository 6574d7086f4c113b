//! Annotations of Channels and Subscriptions, and of what Subscriptions deploy.

macro_rules! annotations {
    ($($(#[doc = $doc:literal])+ $name:ident = $suffix:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = concat!("apps.open-cluster-management.io/", $suffix);)*
    };
}

annotations! {
    /// On a Subscription: the folder in the repository.
    GIT_PATH = "git-path";
    /// On a Subscription: the branch.
    GIT_BRANCH = "git-branch";
    /// On a Subscription: the folder, as older objects say it.
    GITHUB_PATH = "github-path";
    /// On a Subscription: the branch, as older objects say it.
    GITHUB_BRANCH = "github-branch";
    /// On a Subscription: the commit, whatever the branch has since.
    GIT_DESIRED_COMMIT = "git-desired-commit";
    /// On a Subscription: the tag.
    GIT_TAG = "git-tag";
    /// On a Subscription: how many commits of the branch are fetched; 1 by default.
    GIT_CLONE_DEPTH = "git-clone-depth";
    /// On a Subscription: the commit that the hub has seen. The hub writes it.
    GIT_CURRENT_COMMIT = "git-current-commit";
    /// On a Subscription: the prefix of the objects in a bucket.
    BUCKET_PATH = "bucket-path";
    /// On a Subscription, and on what it deploys: `merge`, `replace` or `mergeAndOwn`.
    RECONCILE_OPTION = "reconcile-option";
    /// On a Channel: `off`, `low`, `medium` or `high`; on a Subscription: `off`.
    RECONCILE_RATE = "reconcile-rate";
    /// On a Subscription: another value makes clusters deploy again at once.
    MANUAL_REFRESH_TIME = "manual-refresh-time";
    /// On an object: it stays when its Subscription does not deploy it any more.
    DO_NOT_DELETE = "do-not-delete";
    /// On a Subscription: `true` when a subscription administrator made it. The hub writes it.
    CLUSTER_ADMIN = "cluster-admin";
    /// On a Subscription: `true` when objects go to its namespace, whoever made it.
    CURRENT_NAMESPACE_SCOPED = "current-namespace-scoped";
    /// On a Subscription: `true` when the hub does not read its source.
    SKIP_HUB_VALIDATION = "skip-hub-validation";
    /// On what a Subscription has made, here or on a cluster: the Subscription, `NAMESPACE/NAME`.
    HOSTING_SUBSCRIPTION = "hosting-subscription";
    /// On an AnsibleJob: `prehook` or `posthook`.
    HOOK_TYPE = "hook-type";
    /// On an AnsibleJob: the job in the source that it was made from.
    HOOK_TEMPLATE = "hook-template";
    /// On a Channel: `true` when it hears of changes by a webhook.
    WEBHOOK_ENABLED = "webhook-enabled";
    /// On a Channel: the Secret with what webhooks are signed with.
    WEBHOOK_SECRET = "webhook-secret";
    /// On a Subscription: how many events webhooks have brought.
    WEBHOOK_EVENT_COUNT = "webhook-event-count";
    /// On a Secret or ConfigMap: the Channels that use it.
    SERVING_CHANNEL = "serving-channel";
}

/// On a Subscription: who made it, in base64.
pub const USER_IDENTITY: &str = "open-cluster-management.io/user-identity";
/// On a Subscription: the groups of who made it, in base64, separated by commas.
pub const USER_GROUP: &str = "open-cluster-management.io/user-group";
