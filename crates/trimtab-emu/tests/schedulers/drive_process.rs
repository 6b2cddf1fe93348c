//! A drive whose server is a process of its own.
//!
//! A process that is killed while requests of it are in its own drive never ends: the kernel waits
//! for answers that only that process could give. So the drive of a test that keeps requests in a
//! stalled drive is served by another process. That process sees when the test has ended, in
//! whatever way, by the end of its standard input. It then restores the queue's parameters and
//! removes the drive. A stall ends by itself, so that a killed test is not waited for.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use trimtab_io::RUN_VARIABLE;

use crate::emulated::{Emulated, Home};

/// A stall ends after this time at the latest.
pub(crate) const LONGEST_STALL: Duration = Duration::from_secs(10);
/// How long the server may take to end after its standard input has.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
const NAME: &str = "stalls";
/// Set for the process that serves.
const SERVES: &str = "TRIMTAB_TEST_SERVES_DRIVE";
/// Begins the server's lines. The test harness prints others.
const ANSWER: &str = "drive: ";

/// The drive, as the test has it.
pub(crate) struct DriveProcess {
    pub(crate) path: String,
    server: Child,
    commands: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    /// Files of parameters that were changed, and what they contained.
    changed: Vec<(String, String)>,
    home: Home,
}

impl DriveProcess {
    pub(crate) fn start() -> Self {
        // The server inherits its directory.
        let home = Home::new();
        let mut server = Command::new("/proc/self/exe")
            .args(["serve_drive", "--exact", "--ignored", "--nocapture"])
            .env(SERVES, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C ends the test; the server then has work to do.
            .process_group(0)
            .spawn()
            .expect("this program runs again");
        let commands = server.stdin.take();
        let answers = BufReader::new(server.stdout.take().expect("is piped")).lines();
        let path = String::new();
        let mut this = Self { path, server, commands, answers, changed: Vec::new(), home };
        this.path = this.answer().expect("the drive starts");
        this
    }

    fn answer(&mut self) -> Option<String> {
        let mut lines = self.answers.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix(ANSWER).map(str::to_owned))
    }

    /// Sends a command. False if the server has ended.
    fn tell(&mut self, command: &str) -> bool {
        let sent = self.commands.as_mut().is_some_and(|to| writeln!(to, "{command}").is_ok());
        sent && self.answer().is_some()
    }

    /// Completes nothing for [`LONGEST_STALL`], or until it is healed.
    pub(crate) fn stall(&mut self) {
        assert!(self.tell("stall"), "the drive's server has ended");
    }

    pub(crate) fn heal(&mut self) {
        assert!(self.tell("heal"), "the drive's server has ended");
    }

    /// Changes a parameter of the queue. The server knows what to restore before it is changed.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        let device = self.path.rsplit('/').next().expect("a path");
        let path = format!("/sys/block/{device}/queue/{name}");
        let before = fs::read_to_string(&path)?;
        let before = match before.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
            Some((current, _)) => current.to_owned(),
            None => before.trim().to_owned(),
        };
        assert!(self.tell(&format!("restore {path} {before}")), "the drive's server has ended");
        self.changed.push((path.clone(), before));
        fs::write(&path, value)
    }
}

impl Drop for DriveProcess {
    fn drop(&mut self) {
        drop(self.commands.take());
        let begun = Instant::now();
        loop {
            match self.server.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) if begun.elapsed() < EXIT_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => break,
            }
        }
        // It was killed, or hangs.
        _ = self.server.kill();
        _ = self.server.wait();
        restore(&self.changed);
        _ = self.home.remove_dead(NAME);
    }
}

fn restore(changed: &[(String, String)]) {
    for (path, before) in changed.iter().rev() {
        // Without a scheduler the kernel shows the usual number of places, whatever it is, and a number
        // that is shown already is not set: the loop device would keep four for ever.
        if let (true, Ok(places)) = (path.ends_with("/nr_requests"), before.parse::<u32>()) {
            _ = fs::write(path, (places / 2).to_string());
        }
        _ = fs::write(path, before);
    }
}

/// Serves a drive until standard input ends.
pub(crate) fn serve() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    // A test that was killed reads no answers.
    let say = |text: &str| _ = writeln!(io::stdout().lock(), "\n{ANSWER}{text}");
    let drive = Emulated::in_home(&Home::inherited(), NAME);
    say(&drive.path);
    let mut changed = Vec::new();
    for command in io::stdin().lines().map_while(Result::ok) {
        match command.split(' ').collect::<Vec<_>>()[..] {
            ["stall"] => drive.stall_for(LONGEST_STALL),
            ["heal"] => drive.heal(),
            ["restore", path, before] => changed.push((path.to_owned(), before.to_owned())),
            _ => panic!("`{command}` is not a command"),
        }
        say("done");
    }
    drive.heal();
    restore(&changed);
    drop(drive);
    if let Some(run) = std::env::var_os(RUN_VARIABLE) {
        _ = fs::remove_dir_all(run);
    }
}
