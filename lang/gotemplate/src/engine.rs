//! The way in: an engine makes templates of texts, a template makes a text of data.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::exec::{Call, Host, Run, execute};
use crate::functions::Functions;
use crate::parse::{TemplateText, Trees};
use crate::value::{Numbers, Value};

/// What a field that a map does not have is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingKey {
    /// Nothing: prints as `<no value>`, and fields of it are nothing again.
    #[default]
    Default,
    /// The zero value of the map's elements; with maps made of JSON that is a nil.
    Zero,
    /// An error.
    Error,
}

/// Why a text is no template, or why a template made no text. The words are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("{0}")]
    Parse(String),
    #[error("{0}")]
    Execute(String),
}

/// Tells the time.
pub type TemplateClock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;
/// Fills a buffer with random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// What a template can learn of the world outside its data.
#[derive(Clone)]
pub(crate) struct Settings {
    pub missing_key: MissingKey,
    pub left: String,
    pub right: String,
    pub clock: TemplateClock,
    pub random: Random,
    /// Whether messages and results follow Helm's engine: no `<no value>`, failures marked.
    pub helm: bool,
    /// Answers `lookup`.
    pub lookup: Option<crate::helm::ObjectLookup>,
    /// How much work one run may be.
    pub work_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            missing_key: MissingKey::Default,
            left: "{{".to_owned(),
            right: "}}".to_owned(),
            clock: Arc::new(jiff::Timestamp::now),
            random: Arc::new(|buffer| rand::Rng::fill_bytes(&mut rand::rng(), buffer)),
            helm: false,
            lookup: None,
            work_max: crate::limits::WORK_MAX,
        }
    }
}

/// Functions, delimiters and options for templates.
///
/// ```
/// use gotemplate::{Engine, Functions};
/// let engine = Engine::new(Functions::sprig());
/// let template = engine.parse("greeting", "Hello {{ .name | upper }}").unwrap();
/// let text = template.render(&serde_json::json!({"name": "cluster1"})).unwrap();
/// assert_eq!(text, "Hello CLUSTER1");
/// ```
#[derive(Clone, Default)]
pub struct Engine {
    pub(crate) functions: Functions,
    pub(crate) settings: Settings,
}

impl Engine {
    pub fn new(functions: Functions) -> Self {
        Engine {
            functions,
            settings: Settings::default(),
        }
    }

    /// Takes other delimiters than `{{` and `}}`; an empty one stays as it is.
    pub fn delimiters(mut self, left: &str, right: &str) -> Self {
        for (place, text) in [(&mut self.settings.left, left), (&mut self.settings.right, right)] {
            if !text.is_empty() {
                text.clone_into(place);
            }
        }
        self
    }

    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.settings.missing_key = missing_key;
        self
    }

    /// The time that `now` and its kin take for now. It is the system's unless this says otherwise.
    pub fn clock(mut self, clock: impl Fn() -> jiff::Timestamp + Send + Sync + 'static) -> Self {
        self.settings.clock = Arc::new(clock);
        self
    }

    /// Where `uuidv4`, `randAlphaNum` and the key makers take their randomness.
    /// It is the system's unless this says otherwise.
    pub fn random(mut self, fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        self.settings.random = Arc::new(fill);
        self
    }

    /// How much work one run may be, in units of evaluating one node of a template. It is some seconds unless this says
    /// otherwise.
    pub fn work_max(mut self, work: u64) -> Self {
        self.settings.work_max = work;
        self
    }

    /// Reads a text. `name` is what messages call it.
    pub fn parse(&self, name: &str, text: &str) -> Result<Template, TemplateError> {
        let mut template = Template {
            name: name.into(),
            engine: self.clone(),
            trees: Trees::new(),
        };
        template.add(name, text)?;
        Ok(template)
    }
}

/// A parsed template and all that are defined with it.
pub struct Template {
    name: Arc<str>,
    engine: Engine,
    trees: Trees,
}

impl Template {
    /// Adds another text whose definitions the template may call.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), TemplateError> {
        let trees = read(&self.engine, name, text).map_err(TemplateError::Parse)?;
        crate::parse::add(&mut self.trees, trees);
        Ok(())
    }

    /// The text for this data, whose whole numbers are `int`.
    pub fn render(&self, data: &Json) -> Result<String, TemplateError> {
        self.render_value(Value::from_json(data, Numbers::AsWritten))
    }

    /// The text for this value.
    pub fn render_value(&self, data: Value) -> Result<String, TemplateError> {
        self.render_named(&self.name, data)
    }

    /// The text for this value, with somebody who answers the hosted functions.
    pub fn render_with(&self, data: Value, host: &dyn Host) -> Result<String, TemplateError> {
        self.run(&self.name, data, Some(host))
    }

    /// The text of one of the templates that were defined.
    pub fn render_named(&self, name: &str, data: Value) -> Result<String, TemplateError> {
        self.run(name, data, None)
    }

    fn run(&self, name: &str, data: Value, host: Option<&dyn Host>) -> Result<String, TemplateError> {
        let Some(tree) = self.trees.get(name) else {
            return Err(TemplateError::Execute(format!(
                "template: no template {} associated with template {}",
                crate::strconv::quote(name),
                crate::strconv::quote(&self.name),
            )));
        };
        let run = Run::new(&self.engine.settings, &self.engine.functions, host);
        let call = Call {
            run: &run,
            trees: &self.trees,
        };
        execute(call, tree, data).map_err(TemplateError::Execute)
    }

    /// The names of all templates, sorted.
    pub fn names(&self) -> Vec<String> {
        self.trees.keys().map(ToString::to_string).collect()
    }
}

/// The trees of a text, read as an engine reads it.
pub(crate) fn read(engine: &Engine, name: &str, text: &str) -> Result<Vec<Arc<crate::node::Tree>>, String> {
    crate::parse::parse(&TemplateText {
        name,
        text,
        left: &engine.settings.left,
        right: &engine.settings.right,
        has_function: &|name| engine.functions.contains(name),
    })
}
