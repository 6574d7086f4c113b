//! What the works of an add-on are called, and which of its parts a work is.

use ocm_api::{labels, work::ManifestWork};

use super::manifest::Side;

/// An add-on on one cluster, and where its hosting works would be told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'n> {
    /// The add-on.
    pub addon: &'n str,
    /// The cluster it is for, which is the namespace of its ManagedClusterAddOn.
    pub cluster: &'n str,
}

/// Which part of an add-on a work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Manifests that are there as long as the add-on is: on which side, and the how manieth.
    Deployed(Side, usize),
    /// Hooks that run before it goes.
    Hooks(Side),
}

impl Part {
    /// The side it is on.
    pub fn side(self) -> Side {
        match self {
            Part::Deployed(side, _) | Part::Hooks(side) => side,
        }
    }
}

impl Names<'_> {
    /// The name of the work that is this part.
    pub fn of(&self, part: Part) -> String {
        let Self { addon, cluster } = self;
        match part {
            Part::Deployed(Side::Managed, index) => format!("addon-{addon}-deploy-{index}"),
            Part::Deployed(Side::Hosting, index) => format!("addon-{addon}-deploy-hosting-{cluster}-{index}"),
            Part::Hooks(Side::Managed) => format!("addon-{addon}-pre-delete"),
            Part::Hooks(Side::Hosting) => format!("addon-{addon}-pre-delete-hosting-{cluster}"),
        }
    }

    /// Which part a work of this name is, if it is one.
    pub fn part(&self, name: &str) -> Option<Part> {
        if let Some(side) = [Side::Managed, Side::Hosting]
            .into_iter()
            .find(|side| self.of(Part::Hooks(*side)) == name)
        {
            return Some(Part::Hooks(side));
        }
        [Side::Managed, Side::Hosting].into_iter().find_map(|side| {
            let index: usize = name.rsplit('-').next()?.parse().ok()?;
            let part = Part::Deployed(side, index);
            (self.of(part) == name).then_some(part)
        })
    }
}

/// The add-on and the cluster that a work is for, when it is a work of an add-on.
pub fn belongs_to(work: &ManifestWork) -> Option<Names<'_>> {
    let all = work.metadata.labels.as_ref()?;
    let addon = all.get(labels::ADDON_NAME).filter(|it| !it.is_empty())?;
    let cluster = all
        .get(labels::ADDON_NAMESPACE)
        .filter(|it| !it.is_empty())
        .or(work.metadata.namespace.as_ref())?;
    Some(Names { addon, cluster })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'static> = Names {
        addon: "helloworld",
        cluster: "cluster1",
    };

    #[test]
    fn works_have_upstream_names_and_are_recognised_by_them() {
        for (name, part) in [
            ("addon-helloworld-deploy-0", Part::Deployed(Side::Managed, 0)),
            (
                "addon-helloworld-deploy-hosting-cluster1-12",
                Part::Deployed(Side::Hosting, 12),
            ),
            ("addon-helloworld-pre-delete", Part::Hooks(Side::Managed)),
            (
                "addon-helloworld-pre-delete-hosting-cluster1",
                Part::Hooks(Side::Hosting),
            ),
        ] {
            assert_eq!(NAMES.of(part), name);
            assert_eq!(NAMES.part(name), Some(part));
        }
    }

    #[test]
    fn similar_names_are_not_works_of_the_add_on() {
        for name in [
            "addon-helloworld-deploy-",
            "addon-helloworld-deploy-x",
            "addon-helloworld-deploy-01",
            "addon-helloworld-deploy-deploy-0",
            "addon-helloworld-deploy-hosting-cluster10-0",
            "addon-helloworldhelm-deploy-0",
            "addon-helloworld-pre-delete-2",
        ] {
            assert_eq!(NAMES.part(name), None, "{name}");
        }
    }
}
