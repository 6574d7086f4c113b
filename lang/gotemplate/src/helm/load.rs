//! Reads a chart from a folder, from files in memory or from an archive.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::chart::{Chart, File};
use super::ignore::Ignore;

/// Why something is no chart.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error("could not read {path}")]
    Read { path: String, source: std::io::Error },
    #[error("could not read the chart archive")]
    Archive { source: std::io::Error },
    #[error("the chart archive holds more than {BYTES_MAX} bytes")]
    Large,
    #[error("cannot load {file}: {message}")]
    Invalid { file: String, message: String },
    #[error("validation: {0}")]
    Metadata(String),
    #[error("Chart.yaml file is missing")]
    Missing,
    #[error("error unpacking subchart {name}")]
    Subchart {
        name: String,
        #[source]
        source: Box<ChartError>,
    },
}

/// As much as Helm unpacks.
const BYTES_MAX: u64 = 100 << 20;
/// Charts inside charts; Helm has no bound.
const NESTING_MAX: usize = 20;

impl Chart {
    /// Reads the folder of a chart. What its `.helmignore` names is left out.
    pub fn load_dir(path: &Path) -> Result<Chart, ChartError> {
        let read = |source| ChartError::Read {
            path: path.display().to_string(),
            source,
        };
        let mut files = Vec::new();
        walk(path, "", &Ignore::default(), &mut files).map_err(read)?;
        let rules = match files.iter().find(|it| it.name == ".helmignore") {
            Some(file) => Ignore::parse(&String::from_utf8_lossy(&file.data)),
            None => Ignore::parse(""),
        };
        let mut kept = Vec::new();
        walk(path, "", &rules, &mut kept).map_err(read)?;
        build(kept, 0)
    }

    /// Makes a chart of files in memory, each with its path inside the chart (`Chart.yaml`, `templates/x.yaml`).
    /// What a `.helmignore` among them names is left out.
    pub fn from_files<N: AsRef<str>, D: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (N, D)>,
    ) -> Result<Chart, ChartError> {
        let files: Vec<File> = files
            .into_iter()
            .map(|(name, data)| File {
                name: name.as_ref().replace('\\', "/"),
                data: data.as_ref().into(),
            })
            .collect();
        let rules = match files.iter().find(|it| it.name == ".helmignore") {
            Some(file) => Ignore::parse(&String::from_utf8_lossy(&file.data)),
            None => Ignore::parse(""),
        };
        let kept = files.into_iter().filter(|it| !rules.hides_file(&it.name)).collect();
        build(kept, 0)
    }

    /// Reads a packed chart (`.tgz`).
    pub fn from_archive(archive: &[u8]) -> Result<Chart, ChartError> {
        build(unpack(archive)?, 0)
    }
}

fn walk(folder: &Path, prefix: &str, rules: &Ignore, files: &mut Vec<File>) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // A link is followed, as Helm does.
        let kind = std::fs::metadata(entry.path())?;
        if kind.is_dir() {
            if !rules.hides(&name, true) {
                walk(&entry.path(), &format!("{name}/"), rules, files)?;
            }
        } else if kind.is_file() && !rules.hides(&name, false) {
            let data = std::fs::read(entry.path())?;
            files.push(File {
                name,
                data: data.into(),
            });
        }
    }
    Ok(())
}

fn unpack(archive: &[u8]) -> Result<Vec<File>, ChartError> {
    let failed = |source| ChartError::Archive { source };
    let mut files = Vec::new();
    let mut total = 0;
    let mut unpacked = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    for entry in unpacked.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).replace('\\', "/");
        // The first folder is the chart's own.
        let Some((_, name)) = path.trim_start_matches("./").split_once('/') else {
            continue;
        };
        if name.is_empty() || name.split('/').any(|it| it == "..") {
            continue;
        }
        let name = name.to_owned();
        let mut data = Vec::new();
        entry
            .take(BYTES_MAX - total + 1)
            .read_to_end(&mut data)
            .map_err(failed)?;
        total += data.len() as u64;
        if total > BYTES_MAX {
            return Err(ChartError::Large);
        }
        files.push(File {
            name,
            data: data.into(),
        });
    }
    Ok(files)
}

fn build(files: Vec<File>, depth: usize) -> Result<Chart, ChartError> {
    if depth > NESTING_MAX {
        return Err(ChartError::Metadata("charts are nested too deeply".to_owned()));
    }
    let mut chart = Chart::default();
    let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    let metadata = files
        .iter()
        .find(|it| it.name == "Chart.yaml")
        .ok_or(ChartError::Missing)?;
    chart.metadata = document(metadata)?;
    if chart.metadata.api_version.is_empty() {
        chart.metadata.api_version = "v1".to_owned();
    }
    for file in files {
        match file.name.as_str() {
            "Chart.yaml" | "Chart.lock" => {}
            "values.yaml" => {
                let values: Option<serde_json::Map<_, _>> = document(&file)?;
                chart.values = values.unwrap_or_default();
            }
            "values.schema.json" => chart.schema = Some(file.data),
            "requirements.yaml" => {
                let more: super::Metadata = document(&file)?;
                chart.metadata.dependencies = more.dependencies;
                chart.files.push(file);
            }
            name if name.starts_with("templates/") => chart.templates.push(file),
            name if name.starts_with("charts/") && !name.ends_with(".prov") => {
                let inside = name["charts/".len()..].to_owned();
                let subchart = inside.split('/').next().unwrap_or_default().to_owned();
                subcharts.entry(subchart).or_default().push(File {
                    name: inside,
                    data: file.data,
                });
            }
            _ => chart.files.push(file),
        }
    }
    check(&chart)?;
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let inside = |source| ChartError::Subchart {
            name: name.clone(),
            source: Box::new(source),
        };
        let subchart = if name.ends_with(".tgz") {
            build(unpack(&files[0].data).map_err(inside)?, depth + 1)
        } else {
            // A file that lies directly in charts/ is no chart.
            let files: Vec<File> = files
                .into_iter()
                .filter_map(|it| {
                    let (_, inside) = it.name.split_once('/')?;
                    Some(File {
                        name: inside.to_owned(),
                        data: it.data,
                    })
                })
                .collect();
            if files.is_empty() {
                continue;
            }
            build(files, depth + 1)
        };
        chart.dependencies.push(subchart.map_err(inside)?);
    }
    Ok(chart)
}

fn document<T: serde::de::DeserializeOwned>(file: &File) -> Result<T, ChartError> {
    let invalid = |message| ChartError::Invalid {
        file: file.name.clone(),
        message,
    };
    let json = crate::yaml::read(&String::from_utf8_lossy(&file.data)).map_err(invalid)?;
    serde_json::from_value(json).map_err(|error| invalid(error.to_string()))
}

fn check(chart: &Chart) -> Result<(), ChartError> {
    let metadata = &chart.metadata;
    let refuse = |message: String| Err(ChartError::Metadata(message));
    if metadata.name.is_empty() {
        return refuse("chart.metadata.name is required".to_owned());
    }
    if metadata.name.contains('/') || metadata.name == "." || metadata.name == ".." {
        return refuse(format!("chart.metadata.name {:?} is invalid", metadata.name));
    }
    if metadata.version.is_empty() {
        return refuse("chart.metadata.version is required".to_owned());
    }
    if crate::sprig::semver::SemanticVersion::parse(&metadata.version).is_err() {
        return refuse(format!("chart.metadata.version {:?} is invalid", metadata.version));
    }
    if !["", "application", "library"].contains(&metadata.kind.as_str()) {
        return refuse("chart.metadata.type must be application or library".to_owned());
    }
    let mut names = std::collections::BTreeSet::new();
    for dependency in &metadata.dependencies {
        let key = if dependency.alias.is_empty() {
            &dependency.name
        } else {
            &dependency.alias
        };
        if !names.insert(key) {
            return refuse(format!("more than one dependency with name or alias {key:?}"));
        }
    }
    Ok(())
}

impl AsRef<[u8]> for File {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl File {
    pub fn new(name: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
        File {
            name: name.into(),
            data: data.into(),
        }
    }
}
