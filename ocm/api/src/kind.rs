//! What every kind has in common, and the macro that makes a root struct of it.
//! `kube`'s derive would do most of this, but its root insists on a `spec`; upstream's objects may come without one,
//! and a watch must not break on them.

use kube::Resource;

/// One printer column of `kubectl get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// How it is shown, such as `string` or `date`.
    pub r#type: &'static str,
    /// Where its value is in the object.
    pub json_path: &'static str,
}

/// A kind of ours, with what its CustomResourceDefinition says besides the schema.
pub trait Kind: Resource<DynamicType = ()> {
    /// Lower-case plural, as in URLs.
    const PLURAL: &'static str;
    /// Whether objects live in a namespace.
    const NAMESPACED: bool;
    /// The names `kubectl` accepts besides singular and plural.
    const SHORT_NAMES: &'static [&'static str];
    /// What `kubectl get` shows.
    const COLUMNS: &'static [Column];
    /// Whether the status is written through its own sub-resource.
    const STATUS_SUBRESOURCE: bool;
    /// What the API server refuses an object without.
    const REQUIRED: &'static [&'static str];
    /// Our own words for the kind.
    const ABOUT: &'static str;
    /// The schemas of `spec`, `status` and whatever else the kind has.
    fn sections(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, schemars::Schema)>;
}

/// `kind! { /// doc pub struct Name { spec: Spec, status: Status } api …; scope …; short […]; columns […]; flags […];
/// }`
macro_rules! kind {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident { $($section:ident: $type:ty),* $(,)? }
        api $group:literal $version:literal $plural:literal $scope:ident;
        short [$($short:literal),*];
        columns [$(($column:literal, $column_type:literal, $path:literal)),* $(,)?];
        flags [$($flag:ident),*];
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Standard object metadata.
            #[serde(default, deserialize_with = "crate::null::to_default")]
            pub metadata: kube::core::ObjectMeta,
            $(
                #[allow(missing_docs)]
                #[serde(default, deserialize_with = "crate::null::to_default")]
                pub $section: $crate::kind::section_type!($section $type),
            )*
        }

        impl $name {
            /// The API group.
            pub const GROUP: &'static str = $group;
            /// The API version.
            pub const VERSION: &'static str = $version;
            /// Group and version as in `apiVersion`.
            pub const API_VERSION: &'static str = concat!($group, "/", $version);
            /// The kind's name as in `kind`.
            pub const KIND: &'static str = stringify!($name);
            /// Lower-case plural, as in URLs.
            pub const PLURAL: &'static str = $plural;
        }

        $crate::kind::constructor!($name $($section: $type),*);

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct(Self::KIND, 7)?;
                object.serialize_field("apiVersion", Self::API_VERSION)?;
                object.serialize_field("kind", Self::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                $($crate::kind::serialize_section!(object, self, $section);)*
                object.end()
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = $crate::kind::scope_type!($scope);

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                Self::KIND.into()
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                Self::GROUP.into()
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                Self::VERSION.into()
            }
            fn api_version(_: &()) -> std::borrow::Cow<'_, str> {
                Self::API_VERSION.into()
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                Self::PLURAL.into()
            }
            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl $crate::Kind for $name {
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $crate::kind::is_namespaced!($scope);
            const SHORT_NAMES: &'static [&'static str] = &[$($short),*];
            const COLUMNS: &'static [$crate::Column] =
                &[$($crate::Column { name: $column, r#type: $column_type, json_path: $path }),*];
            const STATUS_SUBRESOURCE: bool = $crate::kind::has_flag!(status [$($flag)*]);
            const REQUIRED: &'static [&'static str] = if $crate::kind::has_flag!(metadata_required [$($flag)*]) {
                &["metadata", "spec"]
            } else if $crate::kind::has_flag!(spec_required [$($flag)*]) {
                &["spec"]
            } else if $crate::kind::has_flag!(report_type_required [$($flag)*]) {
                &["reportType"]
            } else {
                &[]
            };
            const ABOUT: &'static str = concat!($($doc),+);

            fn sections(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, schemars::Schema)> {
                let _ = &generator;
                vec![$(($crate::kind::section_name!($section), generator.subschema_for::<$type>())),*]
            }
        }
    };
}

macro_rules! section_type {
    (status $type:ty) => { Option<$type> };
    ($section:ident $type:ty) => { $type };
}

macro_rules! section_name {
    (report_type) => {
        "reportType"
    };
    ($section:ident) => {
        stringify!($section)
    };
}

macro_rules! constructor {
    ($name:ident spec: $spec:ty $(, $status:ident: $type:ty)?) => {
        impl $name {
            /// An object of this name with this spec and nothing else.
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = kube::core::ObjectMeta {
                    name: Some(name.to_owned()),
                    ..Default::default()
                };
                Self {
                    metadata,
                    spec,
                    $($status: None,)?
                }
            }
        }
    };
    ($name:ident status: $status:ty) => {
        impl $name {
            /// An object of this name and nothing else.
            pub fn new(name: &str) -> Self {
                let metadata = kube::core::ObjectMeta {
                    name: Some(name.to_owned()),
                    ..Default::default()
                };
                Self {
                    metadata,
                    status: None,
                }
            }
        }
    };
    ($name:ident $($section:ident: $type:ty),*) => {
        impl $name {
            /// An object of this name and nothing else.
            pub fn new(name: &str) -> Self {
                let metadata = kube::core::ObjectMeta {
                    name: Some(name.to_owned()),
                    ..Default::default()
                };
                Self {
                    metadata,
                    ..Self::default()
                }
            }
        }
    };
}

macro_rules! serialize_section {
    ($object:ident, $self:ident, results) => {
        if !$self.results.is_empty() {
            $object.serialize_field("results", &$self.results)?;
        }
    };
    ($object:ident, $self:ident, resources) => {
        if !$self.resources.is_empty() {
            $object.serialize_field("resources", &$self.resources)?;
        }
    };
    ($object:ident, $self:ident, status) => {
        if let Some(status) = &$self.status {
            $object.serialize_field("status", status)?;
        }
    };
    ($object:ident, $self:ident, $section:ident) => {
        $object.serialize_field($crate::kind::section_name!($section), &$self.$section)?
    };
}

macro_rules! scope_type {
    (Cluster) => {
        kube::core::ClusterResourceScope
    };
    (Namespaced) => {
        kube::core::NamespaceResourceScope
    };
}

macro_rules! is_namespaced {
    (Cluster) => {
        false
    };
    (Namespaced) => {
        true
    };
}

macro_rules! has_flag {
    (status [status $($rest:ident)*]) => { true };
    (spec_required [spec_required $($rest:ident)*]) => { true };
    (metadata_required [metadata_required $($rest:ident)*]) => { true };
    (report_type_required [report_type_required $($rest:ident)*]) => { true };
    ($flag:ident [$other:ident $($rest:ident)*]) => { $crate::kind::has_flag!($flag [$($rest)*]) };
    ($flag:ident []) => { false };
}

pub(crate) use {
    constructor, has_flag, is_namespaced, kind, scope_type, section_name, section_type, serialize_section,
};
