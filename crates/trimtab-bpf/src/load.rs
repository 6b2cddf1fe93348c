//! Loading BPF programs.

use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use libbpf_rs::{MapCore as _, Object, ObjectBuilder, OpenMapMut, PrintLevel};

use crate::Error;
use crate::devices::{self, DeviceTable};

/// Loads those of the compiled `programs` that `wanted` selects by name, for these `devices`.
/// `configure` receives each of their other maps, by name, before that.
///
/// # Errors
/// The kernel refuses the programs; the error contains the verifier's last objection.
pub fn load(
    programs: &[u8],
    devices: &DeviceTable,
    wanted: impl Fn(&str) -> bool,
    configure: impl Fn(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    let object = load_object(programs, wanted, |name, map| match name {
        devices::MAP => map.set_max_entries(devices.buckets()),
        name => configure(name, map),
    })
    .map_err(refused)?;
    let table = object.maps().find(|map| map.name() == devices::MAP);
    devices.write(&table.expect("every object that is loaded for devices has it"))?;
    Ok(object)
}

/// Loads those of the compiled `programs` that `wanted` selects by name. `configure` receives
/// each of their maps, by name, before that.
///
/// # Errors
/// The kernel refuses the programs, or the library cannot use them.
pub fn load_object(
    programs: &[u8],
    wanted: impl Fn(&str) -> bool,
    configure: impl Fn(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> libbpf_rs::Result<Object> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
    let mut open = ObjectBuilder::default().open_memory(programs)?;
    for mut program in open.progs_mut() {
        let is_wanted = wanted(&program.name().to_string_lossy());
        program.set_autoload(is_wanted);
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        configure(&name, &mut map)?;
    }
    open.load()
}

/// The end of the library's output, which would otherwise go to standard error.
static LIBRARY_LOG: Mutex<String> = Mutex::new(String::new());

fn keep_log(_: PrintLevel, text: String) {
    /// A verifier's log may have a million lines; only the last few are needed.
    const MOST: usize = 4096;
    let mut log = LIBRARY_LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.push_str(&text);
    let mut begin = log.len().saturating_sub(MOST);
    while !log.is_char_boundary(begin) {
        begin += 1;
    }
    log.drain(..begin);
}

/// The verifier's objection: the last line of its log before the statistics.
fn objection(log: &str) -> Option<&str> {
    let (log, _) = log.split_once("-- END PROG LOAD LOG --")?;
    log.lines().rev().find(|line| !line.starts_with("processed ") && !line.trim().is_empty())
}

/// Why the kernel refuses the programs.
fn refused(e: libbpf_rs::Error) -> Error {
    match e.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => Error::Kernel(
            "the kernel refuses BPF programs even to root: it is locked down (see \
             /sys/kernel/security/lockdown) or the container lacks CAP_BPF and CAP_PERFMON"
                .to_owned(),
        ),
        _ => {
            let log =
                std::mem::take(&mut *LIBRARY_LOG.lock().unwrap_or_else(PoisonError::into_inner));
            match objection(&log) {
                Some(objection) => Error::Kernel(format!(
                    "the kernel's verifier refuses the BPF programs ({e}): {objection}"
                )),
                None => Error::Bpf {
                    what: "load the BPF programs (Linux 5.15 or newer is needed)",
                    source: e,
                },
            }
        }
    }
}

/// Checks for the capabilities that loading tracing programs takes: `CAP_BPF` and
/// `CAP_PERFMON`, or the older `CAP_SYS_ADMIN`.
///
/// # Errors
/// [`Error::Privilege`]: the process lacks them.
pub fn check_privilege() -> Result<(), Error> {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let status = fs::read_to_string("/proc/self/status")
        .map_err(Error::system::<io::Error>("read /proc/self/status"))?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    if effective & SYS_ADMIN != 0 || effective & PERFMON_AND_BPF == PERFMON_AND_BPF {
        Ok(())
    } else {
        Err(Error::Privilege)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objection_is_the_last_line_before_the_statistics() {
        let log = "2914: (24) w0 *= -10\n\
                    BPF program is too large. Processed 1000001 insn\n\
                    processed 1000001 insns (limit 1000000) max_states_per_insn 17\n\
                    -- END PROG LOAD LOG --\n\
                    libbpf: prog 'on_issue': failed to load: -E2BIG\n";
        let found = objection(log);
        assert_eq!(found, Some("BPF program is too large. Processed 1000001 insn"));
    }
}
