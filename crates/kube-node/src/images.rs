//! Which command stands for an image.

use std::collections::BTreeMap;

/// What a container of an image runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Words that come first.
    pub words: Vec<String>,
    /// Whether the container's own command follows whole. Otherwise the words stand for its first word, the entrypoint.
    pub keeps_command: bool,
}

impl Command {
    /// The words to run for a container with this command and these arguments; `None` when there are none.
    pub fn line(&self, command: &[String], args: &[String]) -> Option<Vec<String>> {
        let own = if self.keeps_command {
            command
        } else {
            command.get(1..).unwrap_or_default()
        };
        let line: Vec<String> = self.words.iter().chain(own).chain(args).cloned().collect();
        (!line.is_empty()).then_some(line)
    }
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

    /// Reads `IMAGE=COMMAND` and maps it. The command's words are separated by blanks, quotes keep blanks together. A `*` as
    /// last word stands for the container's own command; without it the words replace the image's entrypoint.
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
        let keeps_command = words.last().is_some_and(|it| it == "*");
        if keeps_command {
            words.pop();
        }
        self.insert(image.trim(), Command { words, keeps_command });
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
        Some(map.find(image)?.line(&owned(command), &owned(args))?.join(" "))
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
    fn the_words_replace_the_entrypoint_or_come_before_the_whole_command() {
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

    #[test]
    fn a_mapping_of_another_form_is_refused() {
        let mut map = ImageMap::default();
        assert_eq!(map.add("nginx"), Err(MapError::Form("nginx".into())));
        assert_eq!(map.add("nginx="), Err(MapError::Form("nginx=".into())));
        assert_eq!(map.add("=x"), Err(MapError::Form("=x".into())));
        assert_eq!(map.add("a='x"), Err(MapError::Quote("a='x".into())));
    }
}
