//! Collects the commands in pages, example files and help texts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command, and the place where it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) place: String,
    pub(crate) command: String,
}

/// The top of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn all() -> Vec<Shown> {
    let mut shown = Vec::new();
    for page in pages() {
        shown.extend(fenced(&name_of(&page), &read(&page)));
    }
    for example in files("examples", "toml") {
        shown.extend(header(&name_of(&example), &read(&example), "#"));
    }
    for program in files("examples/c", "c") {
        shown.extend(header(&name_of(&program), &read(&program), " *"));
    }
    help(&[], &mut shown);
    shown
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    pages.extend(files("docs", "md"));
    for entry in fs::read_dir(root().join("examples")).unwrap().flatten() {
        pages.extend(Some(entry.path().join("README.md")).filter(|page| page.exists()));
    }
    pages
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|of| of == ending)).collect();
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn name_of(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Commands in blocks marked as shell: lines after a prompt, or all lines without one.
fn fenced(page: &str, text: &str) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut block: Option<Vec<(usize, &str)>> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut block, fence) {
            (None, Some("console" | "sh" | "shell" | "bash")) => block = Some(Vec::new()),
            (Some(lines), None) => lines.push((number, line)),
            (Some(lines), Some(_)) => {
                let has_prompt = lines.iter().any(|(_, line)| line.starts_with("$ "));
                for (number, line) in lines {
                    let command = if has_prompt { line.strip_prefix("$ ") } else { Some(*line) };
                    let command = command.filter(|command| !command.trim().is_empty());
                    shown.extend(command.map(|command| one(&format!("{page}:{number}"), command)));
                }
                block = None;
            }
            (None, _) => {}
        }
    }
    shown
}

/// Commands in the comment at the beginning of a file: indented lines that are commands.
fn header(file: &str, text: &str, mark: &str) -> Vec<Shown> {
    let text = text.trim_start_matches("/* SPDX-License-Identifier: Apache-2.0 OR MIT */\n/*\n");
    let comment = text.lines().map_while(|line| line.strip_prefix(mark));
    let indented = comment.filter_map(|line| line.strip_prefix("   "));
    let is_command = |line: &&str| {
        ["trimtab ", "sudo ", "cc ", "failover "].iter().any(|program| line.starts_with(program))
    };
    indented.map(str::trim).filter(is_command).map(|command| one(file, command)).collect()
}

/// Commands in a command's help, and in that of its subcommands.
fn help(above: &[String], shown: &mut Vec<Shown>) {
    let output = Command::new(env!("CARGO_BIN_EXE_trimtab")).args(above).arg("--help").output();
    let text = String::from_utf8(output.expect("trimtab runs").stdout).unwrap();
    let place = format!("trimtab {} --help", above.join(" "));
    for line in section(&text, "Examples:") {
        shown.push(one(&place, line));
    }
    for line in section(&text, "Commands:") {
        // Continuation lines of a description are indented more.
        let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else {
            continue;
        };
        let name = name.split_whitespace().next().unwrap_or_default();
        if name != "help" {
            help(&[above, &[name.to_owned()][..]].concat(), shown);
        }
    }
}

/// The indented lines below a heading.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with("  ")).collect()
}

/// A command without the comment behind it.
fn one(place: &str, command: &str) -> Shown {
    let command = command.split(" # ").next().unwrap_or_default().trim().to_owned();
    Shown { place: place.to_owned(), command }
}
