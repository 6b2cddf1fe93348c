//! `trimtab agent`, from the side of a service manager and of Prometheus.

mod drive;
mod exposition;
mod place;
mod privileges;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use exposition::Metrics;
use place::Place;
use rustix::process::{Pid, Signal, kill_process};
use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_testdisk::{self as testdisk, LoopDisk};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A disk to monitor, or a note on why there is none.
fn disk() -> Option<LoopDisk> {
    if !testdisk::requires(testdisk::REAL_DISKS) {
        return None;
    }
    Some(LoopDisk::new(64))
}

/// A directory with a model whose drive will be found to have changed: its card claims that
/// failing over paid from the first percentile on.
fn place() -> Place {
    let place = Place::new(&[("a.csv", &drive::recording(3000, 1, false))]);
    let train = ["train", "--trace", "a.csv", "--predictor", "heur-sim", "-o", "m.safetensors"];
    let trained = place.command(&train).output().unwrap();
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    let mut model = Model::load(&place.path("m.safetensors")).unwrap();
    model.card.training.inflection_percentile = Some(1.0);
    let (tensors, card) = model.to_files().unwrap();
    fs::write(place.path("m.safetensors"), tensors).unwrap();
    fs::write(place.path("m.json"), card).unwrap();
    place
}

impl Place {
    /// Writes a configuration for a disk: any port, no pins, a model.
    fn config(&self, disk: &str, more: &str) {
        let model = self.path("m.safetensors");
        let pins = if more.contains("pin_directory") { "" } else { "pin_directory = \"\"\n" };
        let text = format!(
            "listen = \"127.0.0.1:0\"\n{pins}{more}\n[[drive]]\ndevice = \"{disk}\"\n\
             model = \"{}\"\n",
            model.display()
        );
        fs::write(self.path("agent.toml"), text).unwrap();
    }

    fn agent(&self) -> Command {
        self.command(&["agent", "--config", "agent.toml"])
    }

    /// Expects exit with this code, and one line with this text.
    fn refused(&self, config: &str, code: i32, expected: &str) {
        fs::write(self.path("agent.toml"), config).unwrap();
        let output = self.agent().output().unwrap();
        assert_reported(&output, code, expected);
    }
}

fn assert_reported(output: &Output, code: i32, expected: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(expected) && said.lines().count() == 1, "{expected:?}: {said}");
}

/// A running agent, killed when dropped.
struct Agent {
    child: Child,
    address: String,
    said: Receiver<String>,
}

impl Agent {
    /// Starts it, and waits until it reports the address of its metrics.
    fn start(command: Command) -> Self {
        Self::start_hearing(command, "")
    }

    /// The same, after another expected line.
    fn start_hearing(mut command: Command, first: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|l| sender.send(l)));
        let mut this = Self { child, address: String::new(), said };
        if !first.is_empty() {
            this.hear(first);
        }
        let line = this.hear("metrics at http://");
        let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics");
        this.address = address.to_owned();
        this
    }

    /// Returns the next line that contains the text.
    fn hear(&self, what: &str) -> String {
        let (until, mut heard) = (Instant::now() + PATIENCE, Vec::new());
        while let Ok(line) = self.said.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if line.contains(what) {
                return line;
            }
            heard.push(line);
        }
        panic!("waited in vain for {what:?}, heard {heard:#?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as a service manager does. Returns whether it succeeded.
    fn end(mut self) -> bool {
        self.signal(Signal::TERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn get(&self, path: &str) -> String {
        Self::get_at(&self.address, path)
    }

    fn get_at(address: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    }

    /// The metrics, once they stay the same for two updates.
    fn settled(&self) -> Metrics {
        let until = Instant::now() + PATIENCE;
        let mut before = String::new();
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2500));
            let now = self.get("/metrics");
            if now == before {
                return Metrics::parse(&now);
            }
            before = now;
        }
        panic!("the metrics go on changing:\n{before}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn load(disk: &LoopDisk, requests: u32) {
    let (file, number) = (format!("--filename={}", disk.path), format!("--number_ios={requests}"));
    let job = ["--name=load", "--direct=1", "--bs=4k", "--iodepth=8", "--ioengine=libaio"];
    let mix = ["--rw=randrw", "--rwmixread=75", "--norandommap=1", "--size=1g", "--end_fsync=0"];
    testdisk::run("fio", &[&job[..], &mix, &["--filesize=64m", &file, &number]].concat());
}

#[test]
fn metrics_equal_the_kernels_counters() {
    let Some(disk) = disk() else { return };
    let place = place();
    place.config(&disk.path, "");
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = place.agent();
    // Heartbeats come more often than the test reads them: unread ones must not block the
    // agent.
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "1000000");
    let agent = Agent::start(command);
    let mut told = [0; 64];
    let length = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"READY=1");

    let device = BlockDevice::find(&disk.path).unwrap();
    let (first, before) = (agent.settled(), device.stat().unwrap());
    load(&disk, 8000);
    let (last, counted) = (agent.settled(), device.stat().unwrap().since(&before));
    let name = [("device", disk.name())];
    let grown = |metric: &str| last.of(metric, &name) - first.of(metric, &name);
    let lost: f64 = last.all("trimtab_lost_total").sum();
    assert!(counted.reads.requests > 5000);
    for (metric, expected, each) in [
        ("trimtab_reads_total", counted.reads.requests, 1.0),
        ("trimtab_writes_total", counted.writes.requests, 1.0),
        ("trimtab_read_bytes_total", counted.reads.bytes, 4096.0),
        ("trimtab_written_bytes_total", counted.writes.bytes, 4096.0),
    ] {
        let missing = expected as f64 - grown(metric);
        assert!(
            (0.0..=lost * each).contains(&missing),
            "{metric}: {missing} of {expected}, {lost}"
        );
    }
    let reads = last.of("trimtab_reads_total", &name);
    assert_eq!(last.of("trimtab_read_latency_seconds_count", &name), reads);
    assert_eq!(last.of("trimtab_scored_reads_total", &name), reads);
    let late = last.of("trimtab_late_reads_total", &name);
    let submits = last.of("trimtab_false_submits_total", &name);
    let revokes = last.of("trimtab_false_revokes_total", &name);
    // Late and predicted late are counted from both sides.
    assert_eq!(late - submits, last.of("trimtab_predicted_late_total", &name) - revokes);
    for op in ["read", "write"] {
        assert_eq!(last.of("trimtab_in_flight", &[name[0], ("op", op)]), 0.0);
    }
    let predictor = ("predictor", "heur-sim");
    assert_eq!(last.matching("trimtab_model_info", &[name[0], predictor]), 1);
    assert_eq!(agent.get("/healthz"), "ok\n");
    assert!(agent.end());
}

#[test]
fn model_that_does_not_fit_is_trained_again() {
    let Some(disk) = disk() else { return };
    let place = place();
    place.config(&disk.path, "retrain = true\ndrift_check_s = 1\nrecording_mib = 4\n");
    let card = || fs::read_to_string(place.path("m.json")).unwrap();
    let before = card();
    let agent = Agent::start(place.agent());
    load(&disk, 24_000);
    agent.hear("its model does not fit any more, training");
    agent.hear("trained again, on ");
    assert_ne!(card(), before);
    assert!(card().contains("by the agent"), "{}", card());
    let metrics = agent.settled();
    let of = [("device", disk.name()), ("result", "done")];
    assert_eq!(metrics.of("trimtab_trainings_total", &of), 1.0);
    let trace = format!("{}, by the agent", disk.name());
    assert_eq!(metrics.matching("trimtab_model_info", &[("trace", &trace)]), 1);
    // The new files can be loaded.
    agent.signal(Signal::HUP);
    agent.hear("model loaded again");
    assert!(agent.end());
}

#[test]
fn model_that_cannot_be_loaded_leaves_the_old_one() {
    let Some(disk) = disk() else { return };
    let place = place();
    place.config(&disk.path, "");
    let agent = Agent::start(place.agent());
    fs::write(place.path("m.json"), "{}").unwrap();
    agent.signal(Signal::HUP);
    agent.hear("the model stays: ");
    assert_eq!(agent.settled().matching("trimtab_model_info", &[("predictor", "heur-sim")]), 1);
    assert!(agent.end());
}

/// The value of a key in dist/trimtab-agent.service.
fn unit(key: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/trimtab-agent.service");
    let text = fs::read_to_string(path).unwrap();
    let mut values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.next().unwrap_or_else(|| panic!("the unit has no {key}")).to_owned()
}

/// Started by hand, each of its threads has the same privileges as under the unit.
#[test]
fn as_root_it_has_the_units_privileges() {
    let Some(disk) = disk() else { return };
    assert_eq!(unit("NoNewPrivileges"), "yes");
    let granted = privileges::set(&unit("CapabilityBoundingSet"));
    let place = place();
    place.config(&disk.path, "retrain = true\n");
    let agent = Agent::start(place.agent());
    privileges::assert_comes_to(agent.child.id(), granted);
    assert_eq!(agent.get("/healthz"), "ok\n");
    assert!(agent.end());
}

/// Root's access to other users' files is given up too, and the message gives the remedy.
#[test]
fn files_that_root_may_no_longer_use_are_reported() {
    let Some(disk) = disk() else { return };
    let place = place();
    place.config(&disk.path, "retrain = true\n");
    let model = place.path("m.safetensors");
    let nobody = Some(65534);
    std::os::unix::fs::chown(&model, nobody, nobody).unwrap();
    fs::set_permissions(&model, Permissions::from_mode(0o600)).unwrap();
    let checked = place.agent().arg("--check").output().unwrap();
    assert_reported(&checked, 2, "gives up root's access to what is others': chown ");
    // The model can be read, but a newly trained one could not replace it.
    fs::set_permissions(&model, Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::chown(place.path(""), nobody, nobody).unwrap();
    let checked = place.agent().arg("--check").output().unwrap();
    assert_reported(&checked, 2, "a model trained again cannot be written: ");
    let agent = Agent::start_hearing(place.agent(), "a model trained again cannot be written: ");
    assert!(agent.end());
}

/// With the capabilities of dist/trimtab-agent.service and no others.
#[test]
fn two_capabilities_suffice() {
    let Some(disk) = disk() else { return };
    if !testdisk::requires(&[testdisk::Feature::Program("setpriv")]) {
        return;
    }
    let place = place();
    assert_eq!(unit("CapabilityBoundingSet"), "CAP_BPF CAP_PERFMON");
    testdisk::with_bpf_files(0o700, |files| {
        let pins = files.join("trimtab");
        place.config(&disk.path, &format!("pin_directory = \"{}\"\n", pins.display()));
        let with = |capabilities: &str| {
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set=-all{capabilities}")).arg("--no-new-privs");
            let agent = place.agent();
            command.arg(agent.get_program()).args(agent.get_args());
            command.current_dir(place.path(""));
            command
        };
        let agent = Agent::start(with(",+bpf,+perfmon"));
        assert!(pins.join("devices").exists());
        assert!(agent.end());
        assert!(!pins.exists(), "pins are left behind");
        for too_few in [",+bpf", ",+perfmon", ""] {
            assert_reported(&with(too_few).output().unwrap(), 1, "CAP_BPF and CAP_PERFMON");
        }
    });
}

#[test]
fn addresses_can_be_names_and_ipv4_mapped() {
    let Some(disk) = disk() else { return };
    let place = place();
    let ipv6 = TcpListener::bind("[::1]:0").is_ok();
    for (listen, served) in [("localhost:0", 1 + usize::from(ipv6)), ("[::ffff:127.0.0.1]:0", 1)] {
        let config = format!(
            "listen = \"{listen}\"\npin_directory = \"\"\n[[drive]]\ndevice = \"{}\"\n",
            disk.path
        );
        fs::write(place.path("agent.toml"), config).unwrap();
        let mut child = place.agent().stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        // Kills it in any case.
        let _agent = Agent { child, address: String::new(), said: channel().1 };
        let addresses: Vec<_> = line
            .trim()
            .split("http://")
            .skip(1)
            .map(|one| one.split('/').next().unwrap())
            .collect();
        assert_eq!(addresses.len(), served, "{line}");
        for address in addresses {
            assert!(Agent::get_at(address, "/healthz").starts_with("ok"), "{address}");
        }
    }
}

#[test]
fn invalid_input_is_reported_in_one_line() {
    let place = Place::new(&[]);
    assert_reported(&place.agent().output().unwrap(), 2, "agent.toml: cannot read: ");
    place.refused("[[drive]]\ndevice = \"nosuchdisk\"\n", 2, "nosuchdisk: no such device");
    place.refused("[[drive]]\ndevise = \"sda\"\n", 2, "line 2: unknown field `devise`");
    place.refused("", 2, "there is no [[drive]]");
    place.refused("listen = \"[::]:80\"\n[[drive]]\ndevice = \"a\"\n", 2, "allow_remote = true");
    for (listen, expected) in [
        ("localhost", "has no port: expected ADDRESS:PORT"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4 can be reached from outside"),
        ("no-such-host.invalid:80", "cannot resolve no-such-host.invalid: "),
    ] {
        let config = format!("listen = \"{listen}\"\n[[drive]]\ndevice = \"a\"\n");
        place.refused(&config, 2, expected);
    }

    let Some(disk) = disk() else { return };
    let drive = format!("[[drive]]\ndevice = \"{}\"\n", disk.path);
    let twice = format!("listen = \"127.0.0.1:0\"\n{drive}{drive}");
    place.refused(&twice, 2, "is named twice");
    let pins = "listen = \"127.0.0.1:0\"\npin_directory = \"/proc/none\"\n";
    let expected = "pin_directory = \"/proc/none\": cannot make the directory";
    place.refused(&format!("{pins}{drive}"), 1, expected);
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    let listen = format!("listen = \"{taken}\"\n{drive}");
    place.refused(&listen, 1, &format!("cannot serve metrics at {taken}"));
}

/// As after a crash between the two renames of a model's files.
#[test]
fn bad_model_does_not_affect_other_drives() {
    let Some(disk) = disk() else { return };
    let other = LoopDisk::new(64);
    let place = place();
    place.config(&disk.path, "");
    let mut config = fs::read_to_string(place.path("agent.toml")).unwrap();
    config += &format!("[[drive]]\ndevice = \"{}\"\nmodel = \"bad\"\n", other.path);
    fs::write(place.path("agent.toml"), config).unwrap();
    fs::write(place.path("bad"), "other tensors").unwrap();
    fs::copy(place.path("m.json"), place.path("bad.json")).unwrap();
    let checked = place.agent().arg("--check").output().unwrap();
    assert_reported(&checked, 2, "bad: is not the model that bad.json is of");

    let agent = Agent::start_hearing(place.agent(), "no model used");
    let of = |metrics: &Metrics, disk: &LoopDisk| {
        metrics.matching("trimtab_model_info", &[("device", disk.name())])
    };
    let metrics = agent.settled();
    assert_eq!((of(&metrics, &disk), of(&metrics, &other)), (1, 0));
    // Once repaired, it is loaded.
    fs::copy(place.path("m.safetensors"), place.path("bad")).unwrap();
    agent.signal(Signal::HUP);
    agent.hear(&format!("{}: model loaded again", other.name()));
    assert_eq!(of(&agent.settled(), &other), 1);
    assert!(agent.end());
}

#[test]
fn check_confirms_a_valid_configuration() {
    let Some(disk) = disk() else { return };
    let place = place();
    place.config(&disk.path, "");
    let output = place.agent().arg("--check").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "agent.toml: right, 1 drive\n");
    let output = place.agent().args(["--check", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["drift_check_s"], 60);
    assert_eq!(json["drive"][0]["device"], disk.path.as_str());
}

/// The agent mounts the file system again if it may; otherwise it reports the remedy once, and
/// continues when that is done. Here the directory is removed too, so that mounting always
/// fails.
#[test]
fn unmounted_bpf_file_system_is_reported_once_and_reused() {
    let Some(disk) = disk() else { return };
    let place = place();
    let files = place.path("bpf");
    fs::create_dir(&files).unwrap();
    place.config(&disk.path, &format!("pin_directory = \"{}/trimtab\"", files.display()));
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount -t bpf bpf \"$1\" && exec \"$2\" agent --config \"$3\"")
        .arg("sh")
        .arg(&files)
        .arg(env!("CARGO_BIN_EXE_trimtab"))
        .arg(place.path("agent.toml"));
    let agent = Agent::start(command);
    let inside = |script: &str| {
        let target = agent.child.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &target, "sh", "-c", script, "sh"]).arg(&files);
        command.status().unwrap().success()
    };
    assert!(inside("test -e \"$1/trimtab/devices\""));
    assert!(inside("until umount --lazy \"$1\" && rmdir \"$1\"; do :; done"));
    agent.hear("cannot be mounted again");
    std::thread::sleep(Duration::from_millis(2500));
    let more: Vec<_> = agent.said.try_iter().collect();
    assert!(!more.iter().any(|line| line.contains("cannot be mounted")), "{more:?}");
    assert!(inside("mkdir \"$1\" && mount -t bpf bpf \"$1\""));
    agent.hear("it is pinned again");
    let until = Instant::now() + PATIENCE;
    while !inside("test -e \"$1/trimtab/devices\"") {
        assert!(Instant::now() < until, "it is not there");
        std::thread::sleep(Duration::from_millis(100));
    }
}
