//! Which command stands for an image.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use k8s_openapi::api::core::v1::Container;

/// What a container of an image runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Words that come first.
    pub words: Vec<String>,
    /// What of the container's own command and arguments follows them.
    pub then: Then,
}

/// What follows the words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// All but the first word of the container's command: the words stand for the entrypoint.
    AllButEntrypoint,
    /// The container's command whole. Whoever may make pods chooses what the words are given.
    Whole,
    /// The pod's directory, and then the container's command whole; its first word has to name one of these programs,
    /// with or without a path. For images that nobody has mapped: a container runs nothing else, not in its probes and
    /// hooks either, and its variables do not change what the program is.
    OneOf(BTreeSet<String>),
}

/// Why a container of a mapped image is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There are no words at all.
    #[error("no command specified")]
    Empty,
    /// It asks for something that its image is not here for.
    #[error("the image stands for {programs} only, and {asked}")]
    Other {
        /// The programs that it is here for.
        programs: String,
        /// What the container asks for.
        asked: String,
    },
}

impl Command {
    /// The words to run for a container with this command and these arguments, whose pod has its files in `dir`.
    ///
    /// # Errors
    /// When there are no words, or the command is not for what the container asks for.
    pub fn line(&self, command: &[String], args: &[String], dir: &Path) -> Result<Vec<String>, Refusal> {
        let mut line = self.words.clone();
        let own = match &self.then {
            Then::AllButEntrypoint => command.get(1..).unwrap_or_default(),
            Then::Whole => command,
            Then::OneOf(programs) => {
                let asked = command.iter().chain(args).next();
                let name = asked.and_then(|it| Path::new(it).file_name()?.to_str());
                if !name.is_some_and(|it| programs.contains(it)) {
                    let what = asked.map_or_else(|| "nothing".to_owned(), |it| format!("{it:?}"));
                    return Err(other(programs, format!("the container asks for {what}")));
                }
                line.push(dir.to_string_lossy().into_owned());
                command
            }
        };
        line.extend(own.iter().chain(args).cloned());
        (!line.is_empty()).then_some(line).ok_or(Refusal::Empty)
    }

    /// Whether the probes and hooks of a container may be.
    ///
    /// # Errors
    /// When one of them runs a command, which would be one of this host, and the image is here for some programs only.
    pub fn check_probes(&self, container: &Container) -> Result<(), Refusal> {
        match (&self.then, runs_a_command(container)) {
            (Then::OneOf(programs), Some(field)) => Err(other(programs, format!("{field} runs a command"))),
            _ => Ok(()),
        }
    }

    /// Whether a container may set this variable. What it may not set is left out.
    pub fn takes_variable(&self, name: &str) -> bool {
        match self.then {
            Then::AllButEntrypoint | Then::Whole => true,
            Then::OneOf(_) => !changes_the_program(name),
        }
    }
}

fn other(programs: &BTreeSet<String>, asked: String) -> Refusal {
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    Refusal::Other {
        programs: programs.join(", "),
        asked,
    }
}

/// The field of a container that has the node run a command beside the container's own.
fn runs_a_command(container: &Container) -> Option<&'static str> {
    let lifecycle = container.lifecycle.as_ref();
    let hooks = [
        ("postStart.exec", lifecycle.and_then(|it| it.post_start.as_ref())),
        ("preStop.exec", lifecycle.and_then(|it| it.pre_stop.as_ref())),
    ];
    let probes = [
        ("livenessProbe.exec", &container.liveness_probe),
        ("readinessProbe.exec", &container.readiness_probe),
        ("startupProbe.exec", &container.startup_probe),
    ];
    let hooks = hooks.map(|(field, it)| (field, it.is_some_and(|it| it.exec.is_some())));
    let probes = probes.map(|(field, it)| (field, it.as_ref().is_some_and(|it| it.exec.is_some())));
    let mut all = hooks.into_iter().chain(probes);
    all.find_map(|(field, runs)| runs.then_some(field))
}

/// Whether a variable has the loader put other code into a program, or says whose certificates it trusts.
fn changes_the_program(name: &str) -> bool {
    let begins = ["LD_", "DYLD_", "SSL_CERT_"].iter().any(|it| name.starts_with(it));
    begins || name == "GLIBC_TUNABLES"
}

/// A mapping that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// There is no `=`, or nothing on one side of it.
    #[error("{0:?} is not of the form IMAGE=COMMAND")]
    Form(String),
    /// A quote is not closed.
    #[error("{0:?} has a quote that is not closed")]
    Quote(String),
}

/// Commands by image: an exact image, or one without tag and digest, which stands for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageMap {
    commands: BTreeMap<String, Command>,
}

impl ImageMap {
    /// Maps an image; an earlier mapping of it is forgotten.
    pub fn insert(&mut self, image: impl Into<String>, command: Command) {
        self.commands.insert(image.into(), command);
    }

    /// Reads `IMAGE=COMMAND` and maps it. The command's words are separated by blanks, quotes keep blanks together. A
    /// `*` as last word stands for the container's own command; without it the words replace the image's entrypoint.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn add(&mut self, text: &str) -> Result<(), MapError> {
        let form = || MapError::Form(text.to_owned());
        let (image, command) = text.split_once('=').ok_or_else(form)?;
        let mut words = words(command).ok_or_else(|| MapError::Quote(text.to_owned()))?;
        if image.trim().is_empty() || words.is_empty() {
            return Err(form());
        }
        let then = match words.pop_if(|it| *it == "*") {
            Some(_) => Then::Whole,
            None => Then::AllButEntrypoint,
        };
        self.insert(image.trim(), Command { words, then });
        Ok(())
    }

    /// The command of an image.
    pub fn find(&self, image: &str) -> Option<&Command> {
        self.commands.get(image).or_else(|| self.commands.get(bare(image)))
    }
}

/// An image without its tag and digest. A port in the registry's name is no tag.
fn bare(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// The words of a line, as a shell without expansions reads it; `None` for an open quote.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for it in line.chars() {
        match quote {
            Some(open) if it == open => quote = None,
            Some(_) => word.get_or_insert_default().push(it),
            None if it == '"' || it == '\'' => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            None if it.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(texts: &[&str]) -> ImageMap {
        let mut map = ImageMap::default();
        texts.iter().for_each(|it| map.add(it).unwrap());
        map
    }

    fn line(map: &ImageMap, image: &str, command: &[&str], args: &[&str]) -> Option<String> {
        let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let line = map.find(image)?.line(&owned(command), &owned(args), Path::new("/pod"));
        line.ok().map(|it| it.join(" "))
    }

    #[test]
    fn an_exact_image_goes_before_one_without_a_tag() {
        let map = map(&["nginx=any", "nginx:1.14.2=old", "registry:5000/app=app"]);
        assert_eq!(line(&map, "nginx:1.14.2", &[], &[]).as_deref(), Some("old"));
        assert_eq!(line(&map, "nginx:1.25", &[], &[]).as_deref(), Some("any"));
        assert_eq!(line(&map, "nginx@sha256:00", &[], &[]).as_deref(), Some("any"));
        assert_eq!(
            line(&map, "registry:5000/app:v1@sha256:00", &[], &[]).as_deref(),
            Some("app")
        );
        assert_eq!(line(&map, "nginx-other", &[], &[]), None);
        assert_eq!(line(&map, "library/nginx", &[], &[]), None);
    }

    #[test]
    fn a_mapping_replaces_the_entrypoint_or_precedes_the_command() {
        let map = map(&["a=/bin/x 'two words'", "b=drover *", "c=*"]);
        assert_eq!(
            line(&map, "a", &["/entry", "agent"], &["-v"]).as_deref(),
            Some("/bin/x two words agent -v")
        );
        assert_eq!(line(&map, "a", &[], &["-v"]).as_deref(), Some("/bin/x two words -v"));
        assert_eq!(
            line(&map, "b", &["/entry", "agent"], &["-v"]).as_deref(),
            Some("drover /entry agent -v")
        );
        assert_eq!(
            line(&map, "c", &["/bin/sh", "-c"], &["true"]).as_deref(),
            Some("/bin/sh -c true")
        );
        assert_eq!(line(&map, "c", &[], &[]), None);
    }

    fn some_programs() -> Command {
        Command {
            words: ["/bin/x".into(), "--in-pod".into()].into(),
            then: Then::OneOf(["hello".into(), "world".into()].into()),
        }
    }

    #[test]
    fn an_image_for_some_programs_runs_no_other_program() {
        let line = |command: &[&str], args: &[&str]| {
            let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            let line = some_programs().line(&owned(command), &owned(args), Path::new("/pod"));
            line.map(|it| it.join(" ")).map_err(|error| error.to_string())
        };
        let runs = |text: &str| Ok(format!("/bin/x --in-pod /pod {text}"));
        assert_eq!(line(&[], &["/hello", "agent"]), runs("/hello agent"));
        assert_eq!(line(&["world"], &["agent"]), runs("world agent"));
        let refused = |asked: &str| {
            Err(format!(
                "the image stands for hello, world only, and the container asks for {asked}"
            ))
        };
        assert_eq!(line(&[], &["version"]), refused("\"version\""));
        assert_eq!(line(&["kube", "up"], &["/hello"]), refused("\"kube\""));
        assert_eq!(line(&["/hello/.."], &[]), refused("\"/hello/..\""));
        assert_eq!(line(&[], &[]), refused("nothing"));
    }

    #[test]
    fn an_image_for_some_programs_runs_no_probe_command() {
        let container = |text: &str| serde_json::from_str::<Container>(text).unwrap();
        let exec = r#"{"exec": {"command": ["/bin/sh"]}}"#;
        let fields = ["livenessProbe", "readinessProbe", "startupProbe"]
            .map(|it| (it.to_owned(), format!(r#"{{"name": "c", "{it}": {exec}}}"#)));
        let hooks = ["postStart", "preStop"].map(|it| {
            (
                it.to_owned(),
                format!(r#"{{"name": "c", "lifecycle": {{"{it}": {exec}}}}}"#),
            )
        });
        let mut any = ImageMap::default();
        any.add("sh=*").unwrap();
        for (field, text) in fields.into_iter().chain(hooks) {
            let container = container(&text);
            let refusal = some_programs().check_probes(&container).unwrap_err().to_string();
            assert!(refusal.contains(&format!("{field}.exec runs a command")), "{refusal}");
            assert_eq!(any.find("sh").unwrap().check_probes(&container), Ok(()));
        }
        let asks = container(r#"{"name": "c", "livenessProbe": {"httpGet": {"port": 1}}}"#);
        assert_eq!(some_programs().check_probes(&asks), Ok(()));
    }

    #[test]
    fn a_mapping_of_another_form_is_refused() {
        let mut map = ImageMap::default();
        assert_eq!(map.add("nginx"), Err(MapError::Form("nginx".into())));
        assert_eq!(map.add("nginx="), Err(MapError::Form("nginx=".into())));
        assert_eq!(map.add("=x"), Err(MapError::Form("=x".into())));
        assert_eq!(map.add("a='x"), Err(MapError::Quote("a='x".into())));
    }
}
