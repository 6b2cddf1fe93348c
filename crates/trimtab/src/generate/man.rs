//! Man pages. `clap_mangen` makes all sections but the examples, which it would reflow as
//! prose.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;

/// Writes the page of the command, and of each command below it.
pub(super) fn write(command: Command, directory: &Path) -> io::Result<()> {
    // `help` gets no page: it only shows the pages of others.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, directory)
}

fn pages(command: &Command, directory: &Path) -> io::Result<()> {
    let without_examples = command.clone().after_help(Resettable::Reset);
    let page = Man::new(without_examples).manual("trimtab").source(env!("TRIMTAB_VERSION"));
    let mut file = BufWriter::new(File::create(directory.join(page.get_filename()))?);
    page.render(&mut file)?;
    if let Some(text) = command.get_after_help() {
        after_help(&text.to_string(), &mut file)?;
    }
    see_also(command, &mut file)?;
    file.flush()?;
    command.get_subcommands().try_for_each(|below| pages(below, directory))
}

/// The text below a command's help: its examples, then its notes.
fn after_help(text: &str, to: &mut impl Write) -> io::Result<()> {
    let (examples, notes) = match text.starts_with("Example") {
        true => text.split_once("\n\n").unwrap_or((text, "")),
        false => ("", text),
    };
    for (heading, text) in [("EXAMPLES", examples), ("NOTES", notes)] {
        if !text.is_empty() {
            writeln!(to, ".SH {heading}")?;
            // The section's heading replaces it.
            body(text.strip_prefix("Examples:\n").unwrap_or(text), to)?;
        }
    }
    Ok(())
}

/// Writes paragraphs filled, and indented lines unchanged.
fn body(text: &str, to: &mut impl Write) -> io::Result<()> {
    let mut is_filled = true;
    for line in text.lines() {
        let fills = !line.starts_with(' ');
        if fills != is_filled {
            writeln!(to, "{}", if fills { ".fi" } else { ".nf" })?;
            is_filled = fills;
        }
        let line = if line.is_empty() { ".PP".to_owned() } else { escaped(line) };
        writeln!(to, "{line}")?;
    }
    if is_filled { Ok(()) } else { writeln!(to, ".fi") }
}

/// The page of the parent command, and the location of the documentation.
fn see_also(command: &Command, to: &mut impl Write) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    writeln!(to, ".SH SEE ALSO")?;
    if let Some((above, _)) = name.rsplit_once('-') {
        writeln!(to, ".BR {} (1),", escaped(above))?;
    }
    writeln!(to, "the pages in share/doc/trimtab/docs")
}

/// A line in which roff finds no requests.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_verbatim_and_notes_are_filled() {
        let mut page = Vec::new();
        let text = "Examples:\n  trimtab a --b\n  trimtab 'c\\d'\n\nOne.\n.two\n\nThree:\n  4";
        after_help(text, &mut page).unwrap();
        let expected = ".SH EXAMPLES\n.nf\n  trimtab a \\-\\-b\n  trimtab 'c\\ed'\n.fi\n\
                        .SH NOTES\nOne.\n\\&.two\n.PP\nThree:\n.nf\n  4\n.fi\n";
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }
}
