//! What loading BPF programs takes, whatever they are for.

pub(crate) mod mapping;

use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Object, ObjectBuilder, OpenMapMut, PrintLevel};

use crate::record::{Arrival, Error};

/// Loads those of the compiled `programs` that are wanted, by name, after each of
/// their maps has been configured.
pub(crate) fn load(
    programs: &[u8],
    wanted: impl Fn(&str) -> bool,
    configure: impl Fn(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    let open = ObjectBuilder::default().open_memory(programs);
    let mut open = open.map_err(Error::bpf("read the compiled BPF programs"))?;
    for mut program in open.progs_mut() {
        let is_wanted = wanted(&program.name().to_string_lossy());
        program.set_autoload(is_wanted);
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        configure(&name, &mut map).map_err(Error::bpf("configure the BPF programs"))?;
    }
    open.load().map_err(refused)
}

/// The end of what the library would have printed to standard error.
static SAID: Mutex<String> = Mutex::new(String::new());

fn listen(_: PrintLevel, text: String) {
    /// A verifier's log may have a million lines; what matters are the last few.
    const MOST: usize = 4096;
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.push_str(&text);
    let mut begin = said.len().saturating_sub(MOST);
    while !said.is_char_boundary(begin) {
        begin += 1;
    }
    said.drain(..begin);
}

/// What the kernel's verifier does not like: the last line of its log but for the figures.
fn objection(said: &str) -> Option<&str> {
    let (log, _) = said.split_once("-- END PROG LOAD LOG --")?;
    log.lines().rev().find(|line| !line.starts_with("processed ") && !line.trim().is_empty())
}

/// Why the kernel does not take the programs.
fn refused(e: libbpf_rs::Error) -> Error {
    match e.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => Error::Kernel(
            "the kernel refuses BPF programs even to root: it is locked down (see \
             /sys/kernel/security/lockdown) or the container lacks CAP_BPF and CAP_PERFMON"
                .to_owned(),
        ),
        _ => {
            let said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
            match objection(&said) {
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

/// Loading tracing programs takes `CAP_BPF` and `CAP_PERFMON`, or the older
/// `CAP_SYS_ADMIN`.
pub(crate) fn check_privilege() -> Result<(), Error> {
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

/// Checks that the kernel has the tracepoints, and settles how arrivals are
/// told.
pub(crate) fn available(arrival: Arrival) -> Result<Arrival, Error> {
    let btf = Btf::from_vmlinux().map_err(|_| {
        Error::Kernel(
            "this kernel has no type information (/sys/kernel/btf/vmlinux): use a distribution's \
             kernel, or build yours with CONFIG_DEBUG_INFO_BTF=y"
                .to_owned(),
        )
    })?;
    let has = |tracepoint: &str| {
        btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
    };
    for needed in ["block_rq_issue", "block_rq_complete", "block_rq_requeue", "block_rq_merge"] {
        if !has(needed) {
            return Err(missing(needed));
        }
    }
    match arrival {
        Arrival::Auto if has("block_io_start") => Ok(Arrival::IoStart),
        Arrival::Auto | Arrival::GetRq if has("block_getrq") => Ok(Arrival::GetRq),
        Arrival::IoStart if has("block_io_start") => Ok(Arrival::IoStart),
        Arrival::IoStart => Err(Error::Kernel(
            "this kernel lacks the tracepoint block:block_io_start: Linux 6.5 or newer has it"
                .to_owned(),
        )),
        _ => Err(missing("block_getrq")),
    }
}

fn missing(tracepoint: &str) -> Error {
    Error::Kernel(format!(
        "this kernel lacks the tracepoint block:{tracepoint}: Linux 5.15 or newer with \
         CONFIG_BLOCK and CONFIG_TRACEPOINTS has it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_words() {
        let said = "2914: (24) w0 *= -10\n\
                    BPF program is too large. Processed 1000001 insn\n\
                    processed 1000001 insns (limit 1000000) max_states_per_insn 17\n\
                    -- END PROG LOAD LOG --\n\
                    libbpf: prog 'on_issue': failed to load: -E2BIG\n";
        let found = objection(said);
        assert_eq!(found, Some("BPF program is too large. Processed 1000001 insn"));
    }
}
