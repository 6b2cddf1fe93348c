//! Generated pages and completions are complete, and contain nothing hidden.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use super::{Args, Command, What, run};
use crate::Cli;

/// Each command with the names above it, as `["trimtab", "trace", "info"]`; and the names of
/// hidden commands.
fn commands() -> (Vec<(Vec<String>, Command)>, Vec<String>) {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let (mut shown, mut hidden) = (Vec::new(), Vec::new());
    let mut left = vec![(Vec::new(), command)];
    while let Some((above, command)) = left.pop() {
        if command.is_hide_set() {
            hidden.push(command.get_name().to_owned());
            continue;
        }
        let path = [above, vec![command.get_name().to_owned()]].concat();
        left.extend(command.get_subcommands().map(|below| (path.clone(), below.clone())));
        shown.push((path, command));
    }
    (shown, hidden)
}

fn generated(what: What) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let args = Args { what, directory: directory.path().join("new/directory") };
    run(&args, &Cli::command()).unwrap();
    directory
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// The options that a command takes.
fn options(command: &Command) -> Vec<&str> {
    command.get_arguments().filter_map(|argument| argument.get_long()).collect()
}

#[test]
fn each_command_has_a_man_page_and_no_hidden_one_has() {
    let made = generated(What::Man);
    let directory = made.path().join("new/directory");
    let (shown, _) = commands();
    let expected = shown.iter().map(|(path, _)| path.join("-") + ".1").collect();
    assert_eq!(names(&directory), expected);
    assert!(expected.len() > 30, "{expected:?}");
    for (path, command) in &shown {
        let name = path.join("-");
        let page = fs::read_to_string(directory.join(name.clone() + ".1")).unwrap();
        // The line that indexes of man pages are made from.
        let index = page.split_once(".SH NAME\n").unwrap().1.split_once("\n.SH SYNOPSIS\n");
        let index = index.unwrap_or_else(|| panic!("{name}: {page}")).0;
        assert!(!index.contains('\n') && index.contains(" \\- "), "{name}: {index}");
        for option in options(command) {
            let option = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&option), "{name}: no {option}");
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let has_examples = help.starts_with("Example");
        assert!(page.contains(".SH EXAMPLES\n") == has_examples, "{name}: {page}");
    }
}

#[test]
fn completions_have_all_commands_and_options_and_nothing_hidden() {
    let made = generated(What::Completions);
    let directory = made.path().join("new/directory");
    let files = ["_trimtab", "trimtab.bash", "trimtab.fish"];
    assert_eq!(names(&directory), files.map(str::to_owned).into());
    let (shown, hidden) = commands();
    assert!(hidden.contains(&"generate".to_owned()), "{hidden:?}");
    for file in files {
        let script = fs::read_to_string(directory.join(file)).unwrap();
        let words: BTreeSet<_> =
            script.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect();
        for (path, command) in &shown {
            let name = path.last().unwrap();
            assert!(words.contains(&**name), "{file}: no {path:?}");
            for option in options(command) {
                let of_fish = file.ends_with(".fish").then_some(option);
                let word = of_fish.map_or(format!("--{option}"), str::to_owned);
                assert!(words.contains(&*word), "{file}: no {word} of {path:?}");
            }
        }
        // The same words may occur in descriptions.
        for name in &hidden {
            let offered = [format!("__{name}"), format!("-a \"{name}\""), format!("({name})")];
            let found = offered.iter().find(|offer| script.contains(&**offer));
            assert!(found.is_none(), "{file}: {name} is hidden, but there is {found:?}");
        }
    }
    let script = directory.join("trimtab.bash");
    let checked = std::process::Command::new("bash").arg("-n").arg(script).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn version_names_the_commit() {
    let version = env!("TRIMTAB_VERSION");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").current_dir(&root).args(args).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
    };
    // Not in a source archive, nor inside another repository.
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["rev-parse", "--show-toplevel"])) {
        (Some(commit), Some(top)) if Path::new(&top) == root.canonicalize().unwrap() => {
            assert_eq!(version, format!("{} ({commit})", env!("CARGO_PKG_VERSION")));
        }
        _ => assert_eq!(version, env!("CARGO_PKG_VERSION")),
    }
}
