//! Imports LightGBM models, from the text that `save_model` writes.
//!
//! The text is `key=value` lines: a header, then a section per tree, each beginning with `Tree=`,
//! then `end of trees`. LightGBM's `src/io/gbdt_model_text.cpp` and `src/io/tree.cpp` (version 4)
//! are the format's only description. Supported: models with one output and numeric splits.
//! Categorical splits, linear leaves, several classes and averaged (random forest) models are
//! refused, with the line.

use std::borrow::ToOwned as _;
use std::format;
use std::string::String;
use std::vec::Vec;

use crate::Error;
use crate::tree::{Child, Forest, Missing, Split, Tree};

/// An imported model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The trees; their sum is what LightGBM calls the raw score.
    pub forest: Forest,
    /// The names of the features, in order.
    pub feature_names: Vec<String>,
    /// The objective with its parameters, such as `binary sigmoid:1`.
    pub objective: String,
}

/// Reads a model.
///
/// # Errors
/// If the text is not such a model, or cannot be represented. The error names the line.
pub fn read(text: &str) -> Result<Model, Error> {
    let mut lines = Lines { lines: text.lines().enumerate() };
    let (number, first) = lines.next().unwrap_or((1, ""));
    if first != "tree" {
        return wrong(number, "is not a LightGBM model: its first line is \"tree\"");
    }
    let mut features = None;
    let (mut feature_names, mut objective) = (Vec::new(), String::new());
    let mut trees: Vec<Tree> = Vec::new();
    let mut last = number;
    while let Some((number, line)) = lines.next() {
        last = number;
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        match key {
            "num_class" | "num_tree_per_iteration" if value != "1" => {
                return wrong(number, "only models with one output can be read");
            }
            "max_feature_idx" => {
                let greatest: usize = parse(number, value)?;
                let count = greatest.checked_add(1).filter(|count| *count <= 1 << 16);
                features = Some(count.ok_or(text_error(number, "more than 65536 features"))?);
            }
            "feature_names" => feature_names = value.split(' ').map(str::to_owned).collect(),
            "objective" => objective = value.to_owned(),
            "average_output" => {
                return wrong(number, "averaged (random forest) models cannot be read");
            }
            "Tree" => {
                let features =
                    features.ok_or(text_error(number, "max_feature_idx is missing before"))?;
                trees.push(tree(&mut lines, number, features)?);
            }
            "end of trees" => {
                let features =
                    features.ok_or(text_error(number, "max_feature_idx is missing before"))?;
                let forest = Forest::new(features, 0.0, trees)?;
                return Ok(Model { forest, feature_names, objective });
            }
            _ => {}
        }
    }
    wrong(last, "\"end of trees\" is missing after it")
}

/// Lines with their numbers, from 1.
struct Lines<'a> {
    lines: core::iter::Enumerate<core::str::Lines<'a>>,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        self.lines.next().map(|(number, line)| (number + 1, line.trim_end()))
    }
}

/// The relevant keys of a tree's section, and their lines.
#[derive(Default)]
struct Section<'a> {
    entries: [Option<(usize, &'a str)>; KEYS.len()],
}

const KEYS: [&str; 8] = [
    "num_leaves",
    "num_cat",
    "split_feature",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
];

impl<'a> Section<'a> {
    fn get(&self, begin: usize, key: &str) -> Result<(usize, &'a str), Error> {
        let place = KEYS.iter().position(|k| *k == key).expect("one of the keys");
        self.entries[place].ok_or_else(|| text_error(begin, &format!("the tree has no {key}")))
    }

    fn list<T: core::str::FromStr>(
        &self,
        begin: usize,
        key: &str,
        count: usize,
    ) -> Result<Vec<T>, Error> {
        let (number, value) = self.get(begin, key)?;
        let list: Vec<T> =
            value.split_ascii_whitespace().map(|v| parse(number, v)).collect::<Result<_, _>>()?;
        if list.len() != count {
            return wrong(number, &format!("{} values where {count} are expected", list.len()));
        }
        Ok(list)
    }
}

/// Reads the section of a tree, up to the empty line behind it.
fn tree(lines: &mut Lines<'_>, begin: usize, features: usize) -> Result<Tree, Error> {
    let mut section = Section::default();
    while let Some((number, line)) = lines.next() {
        if line.is_empty() {
            break;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if key == "is_linear" && value != "0" {
            return wrong(number, "linear leaves cannot be read");
        }
        if let Some(place) = KEYS.iter().position(|k| *k == key) {
            section.entries[place] = Some((number, value));
        }
    }
    let (number, categories) = section.get(begin, "num_cat")?;
    if categories != "0" {
        return wrong(number, "categorical splits cannot be read");
    }
    let (number, leaves) = section.get(begin, "num_leaves")?;
    let leaves: usize = parse(number, leaves)?;
    if leaves == 0 {
        return wrong(number, "a tree has at least one leaf");
    }
    let values = section.list::<f64>(begin, "leaf_value", leaves)?;
    let mut splits = Vec::new();
    // A tree with one leaf has none of the other lists.
    if leaves > 1 {
        let count = leaves - 1;
        let feature = section.list::<usize>(begin, "split_feature", count)?;
        let threshold = section.list::<f64>(begin, "threshold", count)?;
        let decision = section.list::<u8>(begin, "decision_type", count)?;
        let left = section.list::<i32>(begin, "left_child", count)?;
        let right = section.list::<i32>(begin, "right_child", count)?;
        for i in 0..count {
            if feature[i] >= features {
                let (number, _) = section.get(begin, "split_feature")?;
                return wrong(number, &format!("feature {} of {features}", feature[i]));
            }
            let (missing, default_left) = decide(decision[i]).ok_or_else(|| {
                let (number, _) = section.get(begin, "decision_type").unwrap_or((begin, ""));
                text_error(number, &format!("decision type {} is not known", decision[i]))
            })?;
            splits.push(Split {
                feature: feature[i],
                threshold: threshold[i],
                missing,
                default_left,
                left: child(left[i]),
                right: child(right[i]),
            });
        }
    }
    Tree::new(splits, values).map_err(|error| match error {
        Error::Tree { node, what, .. } => text_error(begin, &format!("node {node}: {what}")),
        other => other,
    })
}

/// Bit 0: categorical. Bit 1: missing values go left. Bits 2 and 3: type of missing values.
fn decide(decision_type: u8) -> Option<(Missing, bool)> {
    let missing = match decision_type & !2 {
        0 => Missing::Nothing,
        4 => Missing::Zero,
        8 => Missing::Nan,
        _ => return None,
    };
    Some((missing, decision_type & 2 != 0))
}

/// Leaves are numbered −1, −2, and so on.
fn child(number: i32) -> Child {
    match usize::try_from(number) {
        Ok(split) => Child::Split(split),
        Err(_) => Child::Leaf(!number as usize),
    }
}

fn parse<T: core::str::FromStr>(line: usize, value: &str) -> Result<T, Error> {
    value.parse().map_err(|_| {
        let start: String = value.chars().take(20).collect();
        text_error(line, &format!("{start:?} is not a number of the right kind"))
    })
}

fn text_error(line: usize, what: &str) -> Error {
    Error::Text { line, what: what.into() }
}

fn wrong<T>(line: usize, what: &str) -> Result<T, Error> {
    Err(text_error(line, what))
}
