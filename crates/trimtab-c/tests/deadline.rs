//! A deadline holds for programs in C, even if the drive stalls.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
mod programs;
use emulated::Emulated;
use programs::{LIBRARIES, compile, stderr};

#[test]
fn read_ends_by_its_deadline_and_leaves_the_buffer_alone() {
    if !emulated::can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) =
        (directory.path().join("deadline.c"), directory.path().join("deadline"));
    fs::write(&source, include_str!("deadline.c")).unwrap();
    let Some(()) = compile(&source, &program) else { return };
    let emulated = Emulated::new();
    let mut command = Command::new(&program);
    command.arg(&emulated.path).env("LD_LIBRARY_PATH", &*LIBRARIES);
    command.env("TRIMTAB_RUN", directory.path().join("run"));
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = pipes.spawn().unwrap();
    let mut to = running.stdin.take().unwrap();
    let mut from = BufReader::new(running.stdout.take().unwrap()).lines();
    // A program that has failed prints nothing here, and the reason afterwards.
    let mut is_said = |what: &str| from.next().is_some_and(|said| said.unwrap() == what);
    if is_said("ready") {
        emulated.stall();
        to.write_all(b"stalled\n").unwrap();
    }
    if is_said("late") {
        emulated.heal();
        to.write_all(b"healed\n").unwrap();
    }
    emulated.heal();
    drop(to);
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
