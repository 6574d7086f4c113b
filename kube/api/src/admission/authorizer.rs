//! `authorizer` in expressions: asks what the user of the request may do, as Kubernetes' CEL library names it.

use super::attributes::AdmissionAttributes;
use crate::{
    authz::Rbac,
    identity::{self, AccessDecision, User},
};
use safe_cel::{
    Context, Value as Cel,
    language::{
        ExecutionError,
        extractors::This,
        objects::{Key, Map, Opaque},
    },
};
use std::{collections::HashMap, fmt, sync::Arc};

/// A question under way.
#[derive(Clone)]
struct Question {
    rbac: Arc<Rbac>,
    user: Arc<User>,
    asked: identity::Attributes,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("authorizer")
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user && self.asked == other.asked
    }
}

impl Eq for Question {}

impl Opaque for Question {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Authorizer"
    }
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    reason: String,
}

impl Opaque for Answer {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }
}

/// Where a map that is `authorizer` has its question: expressions select `authorizer.requestResource` too, and the
/// engine selects fields of maps only.
const SELF: &str = "@";

/// The variable `authorizer`.
pub fn value(rbac: &Arc<Rbac>, write: &AdmissionAttributes<'_>) -> Cel {
    let question = Question {
        rbac: rbac.clone(),
        user: Arc::new(write.user.clone()),
        asked: identity::Attributes::default(),
    };
    let resource = Question {
        asked: identity::Attributes {
            is_resource: true,
            group: write.resource.group.clone(),
            version: write.version.to_owned(),
            resource: write.resource.plural.clone(),
            subresource: write.subresource.to_owned(),
            namespace: write.namespace.to_owned(),
            name: write.name.to_owned(),
            ..identity::Attributes::default()
        },
        ..question.clone()
    };
    map(question, Some(resource))
}

fn map(question: Question, resource: Option<Question>) -> Cel {
    let mut fields: HashMap<Key, Cel> = HashMap::from([(Key::from(SELF), opaque(question))]);
    if let Some(resource) = resource {
        fields.insert(Key::from("requestResource"), opaque(resource));
    }
    Cel::Map(Map { map: Arc::new(fields) })
}

fn opaque(it: impl Opaque) -> Cel {
    Cel::Opaque(Arc::new(it))
}

fn wrong() -> ExecutionError {
    ExecutionError::NoSuchOverload
}

fn question(it: &Cel) -> Result<Question, ExecutionError> {
    match it {
        Cel::Opaque(it) => it.downcast_ref::<Question>().cloned().ok_or_else(wrong),
        Cel::Map(it) => it.get(&Key::from(SELF)).ok_or_else(wrong).and_then(question),
        _ => Err(wrong()),
    }
}

fn answer(it: &Cel) -> Result<Answer, ExecutionError> {
    match it {
        Cel::Opaque(it) => it.downcast_ref::<Answer>().cloned().ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// Adds what can be asked.
pub fn add_functions(root: &mut Context<'static>) {
    type Set = fn(&mut identity::Attributes, &str);
    let setters: [(&str, Set); 6] = [
        ("path", |it, text| text.clone_into(&mut it.path)),
        ("group", |it, text| {
            it.is_resource = true;
            it.version = "*".to_owned();
            text.clone_into(&mut it.group);
        }),
        ("resource", |it, text| text.clone_into(&mut it.resource)),
        ("subresource", |it, text| text.clone_into(&mut it.subresource)),
        ("namespace", |it, text| text.clone_into(&mut it.namespace)),
        ("name", |it, text| text.clone_into(&mut it.name)),
    ];
    for (name, set) in setters {
        root.add_function(name, move |This(this): This<Cel>, text: Arc<String>| {
            let mut question = question(&this)?;
            set(&mut question.asked, &text);
            Ok::<Cel, ExecutionError>(opaque(question))
        });
    }
    root.add_function(
        "serviceAccount",
        |This(this): This<Cel>, namespace: Arc<String>, name: Arc<String>| {
            let groups = [
                "system:serviceaccounts",
                &format!("system:serviceaccounts:{namespace}"),
                identity::AUTHENTICATED,
            ];
            let question = Question {
                user: Arc::new(User::new(&format!("system:serviceaccount:{namespace}:{name}"), &groups)),
                ..question(&this)?
            };
            Ok::<Cel, ExecutionError>(map(question, None))
        },
    );
    root.add_function("check", |This(this): This<Cel>, verb: Arc<String>| {
        let mut question = question(&this)?;
        question.asked.verb = verb.to_string();
        let answer = match question.rbac.authorize(&question.user, &question.asked) {
            AccessDecision::Allow(reason) => Answer { allowed: true, reason },
            AccessDecision::NoOpinion => Answer {
                allowed: false,
                reason: String::new(),
            },
        };
        Ok::<Cel, ExecutionError>(opaque(answer))
    });
    root.add_function("allowed", |This(this): This<Cel>| answer(&this).map(|it| it.allowed));
    // Nothing here denies: what is not allowed is nobody's opinion.
    root.add_function("denied", |This(this): This<Cel>| answer(&this).map(|_| false));
    root.add_function("errored", |This(this): This<Cel>| answer(&this).map(|_| false));
    root.add_function("error", |This(this): This<Cel>| answer(&this).map(|_| Cel::from("")));
    root.add_function("reason", |This(this): This<Cel>| {
        answer(&this).map(|it| Cel::from(it.reason))
    });
}
