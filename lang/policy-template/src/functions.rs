//! The functions of templates, and who answers those that look things up (upstream: `templates.go`,
//! `k8sresource_funcs.go`, `generic_lookup_func.go`, `clusterconfig_funcs.go`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use gotemplate::encodings::{display, json_of, read_yaml, yaml_of};
use gotemplate::{Call, Functions, Host, Map, Numbers, Value};
use serde_json::Value as Json;

use crate::encryption::TemplateKeys;
use crate::message::sprig_functions;
use crate::render::ResolutionCause;
use crate::settings::{TemplateEncryption, TemplateSettings};
use crate::source::{KindReply, LookupError, Query, Reply, Source};

/// How many different things one run may look up. Upstream has no bound; each of them is a watch here.
pub const QUERIES_MAX: usize = 2_000;

const CLAIMS: &str = "cluster.open-cluster-management.io/v1alpha1";

/// What the run's host answers: name and parameters.
const HOSTED: &[(&str, &str)] = &[
    ("fromSecret", "string string string"),
    ("fromConfigMap", "string string string"),
    ("copySecretData", "string string"),
    ("copyConfigMapData", "string string"),
    ("fromClusterClaim", "string"),
    ("lookupClusterClaim", "string"),
    ("getNodesWithExactRoles", "...string"),
    ("hasNodesWithExactRoles", "...string"),
    ("lookup", "string string string string ...string"),
    ("indent", "int string"),
    ("protect", "string"),
    ("skipObject", "...any"),
];

/// What is called otherwise than in sprig.
const ALIASES: &[(&str, &str)] = &[
    ("base64enc", "b64enc"),
    ("base64dec", "b64dec"),
    ("fromJSON", "fromJson"),
    ("mustFromJSON", "mustFromJson"),
    ("toJSON", "toJson"),
    ("mustToJSON", "mustToJson"),
    ("toRawJSON", "toRawJson"),
    ("mustToRawJSON", "mustToRawJson"),
];

/// Functions of sprig that tell about the machine: always denied.
const SENSITIVE: [&str; 2] = ["env", "expandenv"];

/// The functions of templates with these settings.
pub(crate) fn functions(settings: &TemplateSettings) -> Functions {
    static MADE: OnceLock<Functions> = OnceLock::new();
    let mut functions = MADE.get_or_init(make).clone();
    if !settings.skip_object {
        functions.remove(&["skipObject"]);
    }
    let names = functions.names();
    for name in names {
        if settings.denied.iter().any(|it| it == name) {
            functions.add(name, "...any", move |_, _| {
                Err(format!(
                    "use of denylisted template function: function '{name}' is not allowed"
                ))
            });
        }
    }
    for name in SENSITIVE {
        functions.add(name, "...any", move |_, _| {
            Err(format!(
                "use of denylisted template function: function '{name}' is considered a security risk"
            ))
        });
    }
    functions
}

fn make() -> Functions {
    let mut functions = sprig_functions();
    for (alias, name) in ALIASES {
        functions.alias(alias, name);
    }
    for (name, parameters) in HOSTED {
        functions.add_hosted(name, parameters);
    }
    functions.add("autoindent", "string", |_, _| {
        Err("an unexpected error occurred where autoindent could not be processed".to_owned())
    });
    functions.add("toBool", "string", |_, args| {
        let truths = ["1", "t", "T", "TRUE", "true", "True"];
        Ok(Value::Bool(args[0].as_str().is_some_and(|it| truths.contains(&it))))
    });
    for name in ["toInt", "int"] {
        functions.add(name, "any", |_, args| Ok(Value::int(args[0].to_int())));
    }
    functions.add("int64", "any", |_, args| Ok(Value::int64(args[0].to_int())));
    functions.add("toLiteral", "string", |_, args| {
        if args[0].as_bytes().is_some_and(|it| it.contains(&b'\n')) {
            return Err("new lines are not allowed in the string passed to the toLiteral function".to_owned());
        }
        Ok(args[0].clone())
    });
    for name in ["toYAML", "toYaml"] {
        functions.add(name, "any", |_, args| {
            let text = match &args[0] {
                // go-yaml writes a nil map as one without entries.
                Value::Map(map) if map.is_nil() => "{}".to_owned(),
                value => yaml_of(&value.to_json()?),
            };
            Ok(Value::from(text.strip_suffix('\n').unwrap_or(&text)))
        });
    }
    for name in ["fromYAML", "fromYaml"] {
        functions.add(name, "string", |_, args| {
            let document = read_yaml(&display(&args[0]))?;
            Ok(Value::from_json(&document, Numbers::AsWritten))
        });
    }
    functions
}

/// Answers the functions that look things up, for one run.
pub(crate) struct Lookups<'a> {
    settings: &'a TemplateSettings,
    source: &'a dyn Source,
    /// All that was asked.
    pub queries: RefCell<BTreeSet<Query>>,
    /// What the source did not know yet.
    pub needs: RefCell<Vec<Query>>,
    /// Whether a Secret was read.
    pub sensitive: Cell<bool>,
    /// Whether bytes were printed that are no text.
    pub printed_bytes: Cell<bool>,
    /// Whether `skipObject` was called truthfully.
    pub skip_object: Cell<bool>,
    /// Why a function failed.
    pub cause: Cell<ResolutionCause>,
}

/// Why nothing was looked up.
enum Miss {
    NotFound(String),
    Other(String),
}

impl Miss {
    fn text(self) -> String {
        match self {
            Miss::NotFound(text) | Miss::Other(text) => text,
        }
    }
}

impl From<String> for Miss {
    fn from(text: String) -> Self {
        Miss::Other(text)
    }
}

/// What was looked up.
enum Got {
    One(Arc<Json>),
    Many(Vec<Arc<Json>>),
}

impl<'a> Lookups<'a> {
    pub fn new(settings: &'a TemplateSettings, source: &'a dyn Source) -> Self {
        Lookups {
            settings,
            source,
            queries: RefCell::default(),
            needs: RefCell::default(),
            sensitive: Cell::new(false),
            printed_bytes: Cell::new(false),
            skip_object: Cell::new(false),
            cause: Cell::new(ResolutionCause::Other),
        }
    }

    fn failed(&self, error: LookupError) -> Miss {
        self.cause.set(match error {
            LookupError::Passing(_) => ResolutionCause::Passing,
            LookupError::Unwatchable(_) => ResolutionCause::Unwatchable,
            LookupError::Final(_) => ResolutionCause::Other,
        });
        Miss::Other(error.to_string())
    }

    fn unknown(&self, query: Query) -> Miss {
        self.needs.borrow_mut().push(query);
        Miss::Other("not looked up yet".to_owned())
    }

    /// The namespace to read, where look-ups are restricted to one.
    fn namespace(&self, asked: &str) -> Result<String, String> {
        let only = &self.settings.namespace;
        if only.is_empty() || only == asked {
            return Ok(asked.to_owned());
        }
        if asked.is_empty() {
            return Ok(only.clone());
        }
        Err(format!("the namespace argument is restricted to {only}"))
    }

    fn is_allowed(&self, group: &str, kind: &str, name: &str) -> bool {
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        let mut allowed = self.settings.cluster_scoped.iter();
        allowed.any(|it| fits(&it.group, group) && fits(&it.kind, kind) && fits(&it.name, name))
    }

    fn get(
        &self,
        (api_version, kind): (&str, &str),
        namespace: &str,
        name: &str,
        selectors: &[String],
    ) -> Result<Got, Miss> {
        if api_version.is_empty() || kind.is_empty() {
            return Err("the apiVersion and kind are required".to_owned().into());
        }
        let namespace = self.namespace(namespace)?;
        let group = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}").into());
            }
            Some((group, _)) => group,
            None => "",
        };
        // An empty first selector is none, whatever follows it.
        let selector = match selectors.first() {
            Some(first) if !first.is_empty() && name.is_empty() => selectors.join(","),
            _ => String::new(),
        };
        let mut query = Query {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace,
            name: name.to_owned(),
            selector,
        };
        let plural = match self.source.kind(api_version, kind) {
            KindReply::Known { plural, namespaced } => {
                let restricted = !namespaced && !self.settings.namespace.is_empty();
                if restricted && !self.is_allowed(group, kind, name) {
                    let text = format!("lookup of cluster-scoped resource '{kind}/{name}' is not allowed");
                    return Err(text.into());
                }
                if !namespaced {
                    query.namespace.clear();
                }
                plural
            }
            KindReply::Missing => {
                self.cause.set(ResolutionCause::MissingKind);
                self.note(query)?;
                let text = "one or more API resources are not installed on the API server";
                return Err(text.to_owned().into());
            }
            KindReply::Failed(error) => return Err(self.failed(error)),
            KindReply::Unknown => return Err(self.unknown(query)),
        };
        self.note(query.clone())?;
        let got = match self.source.answer(&query) {
            Reply::Object(Some(object)) => Got::One(object),
            Reply::List(objects) => Got::Many(objects),
            Reply::Object(None) => {
                let dot = if group.is_empty() { "" } else { "." };
                return Err(Miss::NotFound(format!("{plural}{dot}{group} \"{name}\" not found")));
            }
            Reply::Failed(error) => return Err(self.failed(error)),
            Reply::Unknown => return Err(self.unknown(query)),
        };
        let empty = matches!(&got, Got::Many(objects) if objects.is_empty());
        if kind == "Secret" && !empty {
            self.sensitive.set(true);
        }
        Ok(got)
    }

    fn note(&self, query: Query) -> Result<(), String> {
        let mut queries = self.queries.borrow_mut();
        if queries.len() >= QUERIES_MAX && !queries.contains(&query) {
            return Err(format!(
                "the template looks up more than {QUERIES_MAX} different things"
            ));
        }
        queries.insert(query);
        Ok(())
    }

    fn keys(&self) -> Option<&TemplateKeys> {
        match &self.settings.encryption {
            TemplateEncryption::Encrypt(keys) => Some(keys),
            _ => None,
        }
    }

    /// The data of a Secret or ConfigMap.
    fn data(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        key: Option<&str>,
    ) -> Result<Option<serde_json::Map<String, Json>>, String> {
        let unscoped = self.settings.namespace.is_empty() && namespace.is_empty();
        if name.is_empty() || unscoped || key.is_some_and(str::is_empty) {
            let words = match key {
                Some(_) => "namespace, name, and key",
                None => "namespace and name",
            };
            return Err(format!("the input is invalid: {words} must be specified"));
        }
        let got = self.get(("v1", kind), namespace, name, &[]).map_err(|miss| {
            let what = match kind {
                "Secret" => "failed to get the secret",
                _ => "failed getting the ConfigMap",
            };
            format!("{what} {name} from {namespace}: {}", miss.text())
        })?;
        Ok(match got {
            Got::One(object) => object["data"].as_object().cloned(),
            Got::Many(_) => None,
        })
    }

    fn entry_of(&self, kind: &str, args: &[Value]) -> Result<Value, String> {
        let [namespace, name, key] = texts(args)?;
        let data = self.data(kind, &namespace, &name, Some(&key))?.unwrap_or_default();
        let text = data.get(&key).and_then(Json::as_str).unwrap_or_default();
        match self.keys() {
            Some(keys) if kind == "Secret" => Ok(Value::from(keys.protect(text.as_bytes())?)),
            _ => Ok(Value::from(text)),
        }
    }

    fn copy_data(&self, call: &Call<'_>, kind: &str, args: &[Value]) -> Result<Value, String> {
        let [namespace, name] = texts(args)?;
        let Some(mut data) = self.data(kind, &namespace, &name, None)? else {
            return Ok(Value::from("null"));
        };
        if let (Some(keys), "Secret") = (self.keys(), kind) {
            for value in data.values_mut() {
                let text = display(&Value::from_json(value, Numbers::Int64));
                *value = Json::String(keys.protect(text.as_bytes())?);
            }
        }
        call.pay(data.len() as u64)?;
        Ok(Value::from(json_of(&Json::Object(data))))
    }

    fn claim(&self, name: &str, absent: bool) -> Result<Value, String> {
        if name.is_empty() {
            return Err("a claim name must be provided".to_owned());
        }
        let claim = match self.get((CLAIMS, "ClusterClaim"), "", name, &[]) {
            Ok(Got::One(claim)) => claim,
            Ok(Got::Many(_)) => return Err(format!("unexpected ClusterClaim format: {name}")),
            Err(Miss::NotFound(_)) if absent => return Ok(Value::from("")),
            Err(miss) => return Err(miss.text()),
        };
        let Some(spec) = claim["spec"].as_object() else {
            return Err(format!("unexpected ClusterClaim format: {name}"));
        };
        match spec.get("value") {
            None => Ok(Value::from("")),
            Some(Json::String(text)) => Ok(Value::from(text.as_str())),
            Some(other) => {
                let other = Value::from_json(other, Numbers::Int64);
                let got = other.type_name();
                let got = if got == "<nil>" { "nil" } else { &got };
                Err(format!("interface conversion: interface {{}} is {got}, not string"))
            }
        }
    }

    fn lookup(&self, call: &Call<'_>, args: &[Value]) -> Result<Value, String> {
        let words: Vec<String> = args.iter().map(display).collect();
        let [api_version, kind, namespace, name, selectors @ ..] = words.as_slice() else {
            return Err("lookup takes an apiVersion, a kind, a namespace and a name".to_owned());
        };
        match self.get((api_version, kind), namespace, name, selectors) {
            Ok(Got::One(object)) => taken(call, &object),
            Ok(Got::Many(objects)) => list(call, &objects),
            // Every field of an absent object is no value.
            Err(Miss::NotFound(_)) => Ok(Value::Map(Map::nil())),
            Err(Miss::Other(text)) => Err(text),
        }
    }

    fn nodes(&self, args: &[Value]) -> Result<Vec<Arc<Json>>, String> {
        let roles: Vec<String> = args.iter().map(display).collect();
        let selectors = crate::roles::selectors(&roles);
        if selectors.is_empty() {
            return Err("the input is invalid: at least one name must be specified".to_owned());
        }
        match self.get(("v1", "Node"), "", "", &selectors).map_err(Miss::text)? {
            Got::Many(nodes) => Ok(crate::roles::exact(nodes, &selectors)),
            Got::One(_) => Ok(Vec::new()),
        }
    }

    fn indent(&self, args: &[Value]) -> Result<Value, String> {
        let (Value::Int(spaces, _), text) = (&args[0], display(&args[1])) else {
            return Err("the indentation is no number".to_owned());
        };
        let spaces = spaces.saturating_add(self.settings.extra_indentation as i64);
        let Ok(spaces) = usize::try_from(spaces) else {
            return Err("strings: negative Repeat count".to_owned());
        };
        let lines = 1 + text.matches('\n').count();
        // Bounded before it is made.
        if spaces.saturating_mul(lines) > 64 << 20 {
            return Err("the indentation is too large".to_owned());
        }
        let pad = format!("\n{}", " ".repeat(spaces));
        let text = format!("{pad}{}", text.replace('\n', &pad));
        Ok(Value::from(text.trim()))
    }

    fn skip(&self, args: &[Value]) -> Result<Value, String> {
        match args {
            [] => self.skip_object.set(true),
            [_] if self.skip_object.get() => {}
            [Value::Bool(skip)] => self.skip_object.set(*skip),
            [other] => return Err(format!("expected boolean but received '{}'", display(other))),
            _ => {
                let count = args.len();
                return Err(format!(
                    "expected one optional boolean argument but received {count} arguments"
                ));
            }
        }
        Ok(Value::from(""))
    }
}

impl Host for Lookups<'_> {
    fn printed_bytes(&self) {
        self.printed_bytes.set(true);
    }

    fn call(&self, call: &Call<'_>, function: &str, args: &[Value]) -> Result<Value, String> {
        match function {
            "fromSecret" => self.entry_of("Secret", args),
            "fromConfigMap" => self.entry_of("ConfigMap", args),
            "copySecretData" => self.copy_data(call, "Secret", args),
            "copyConfigMapData" => self.copy_data(call, "ConfigMap", args),
            "fromClusterClaim" => self.claim(&display(&args[0]), false),
            "lookupClusterClaim" => self.claim(&display(&args[0]), true),
            "getNodesWithExactRoles" => list(call, &self.nodes(args)?),
            "hasNodesWithExactRoles" => Ok(Value::Bool(!self.nodes(args)?.is_empty())),
            "lookup" => self.lookup(call, args),
            "indent" => self.indent(args),
            "protect" => match self.keys() {
                Some(keys) => Ok(Value::from(keys.protect(args[0].as_bytes().unwrap_or_default())?)),
                None => Err("the protect template function is not enabled in this mode".to_owned()),
            },
            "skipObject" => self.skip(args),
            other => Err(format!("{other} is not a function")),
        }
    }
}

fn texts<const N: usize>(args: &[Value]) -> Result<[String; N], String> {
    let texts: Vec<String> = args.iter().map(display).collect();
    texts.try_into().map_err(|_| "wrong number of arguments".to_owned())
}

/// An object for the template, which may change it as it likes. What it costs to make is paid for.
fn taken(call: &Call<'_>, object: &Json) -> Result<Value, String> {
    call.pay(size(object))?;
    Ok(Value::from_json(object, Numbers::Int64))
}

fn list(call: &Call<'_>, objects: &[Arc<Json>]) -> Result<Value, String> {
    let items = objects.iter().map(|it| taken(call, it));
    Ok(Value::map([("items", Value::list(items.collect::<Result<_, _>>()?))]))
}

/// How many values there are in a document.
fn size(document: &Json) -> u64 {
    match document {
        Json::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Json::Object(entries) => 1 + entries.values().map(size).sum::<u64>(),
        _ => 1,
    }
}
