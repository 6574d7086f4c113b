//! The hub half: what may be asked for, when a completed work is removed, and one work on many clusters.

pub mod admission;
pub mod completed;
pub mod replica_set;

use ocm_reconcile::{Caches, Controller};

use completed::CompletedWorks;
use replica_set::{status::ReplicaSetStatus, works::ReplicaSetWorks};

/// What an administrator can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Gate `ManifestWorkReplicaSet`: whether ManifestWorkReplicaSets have works. Upstream has it off unless it is
    /// asked for.
    pub manifest_work_replica_set: bool,
    /// Gate `CleanUpCompletedManifestWork`: whether works that are complete go when their time is over. Upstream has it
    /// off unless it is asked for, and so have we: works that somebody keeps to look at would go.
    pub clean_up_completed: bool,
    /// Gate `NilExecutorValidating`: whether who writes a work without an executor has to be allowed to write one with
    /// the agent's own account. It is for admission alone.
    pub nil_executor_is_checked: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            manifest_work_replica_set: true,
            clean_up_completed: false,
            nil_executor_is_checked: false,
        }
    }
}

impl Options {
    /// The rules for those who write works.
    pub fn rules(&self) -> admission::AdmissionOptions {
        admission::AdmissionOptions {
            nil_executor_is_checked: self.nil_executor_is_checked,
            replica_sets_are_taken: self.manifest_work_replica_set,
            ..admission::AdmissionOptions::default()
        }
    }
}

/// The hub's controllers for works, over the caches of the process.
pub fn controllers(caches: &Caches, options: Options) -> Vec<Controller> {
    let mut controllers = Vec::new();
    if options.clean_up_completed {
        controllers.push(Controller::new(CompletedWorks::new(caches)));
    }
    if options.manifest_work_replica_set {
        controllers.push(Controller::new(ReplicaSetWorks::new(caches)));
        controllers.push(Controller::new(ReplicaSetStatus::new(caches)));
    }
    controllers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_say_which_controllers_run() {
        let names = |options: Options| {
            let all = controllers(&Caches::unfed(), options);
            assert!(all.iter().all(|it| !it.watches.is_empty() && !it.rights.is_empty()));
            all.iter().map(|it| it.name).collect::<Vec<_>>()
        };
        let of_sets = ["manifest-work-replica-set", "manifest-work-replica-set-status"];
        assert_eq!(names(Options::default()), of_sets);
        let only_completed = Options {
            manifest_work_replica_set: false,
            clean_up_completed: true,
            ..Options::default()
        };
        assert_eq!(names(only_completed), ["completed-works"]);
    }
}
