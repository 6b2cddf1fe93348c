//! The cost of handlers, from the kernel's own statistics.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::Object;

use crate::Error;

/// One handler's runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// The program's name.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// How often the kernel skipped it, because it was running already on the
    /// same CPU.
    pub skipped: u64,
    /// Time in it, in nanoseconds; zero unless it was measured.
    pub run_ns: u64,
}

/// The handlers' cost since they were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Each handler.
    pub handlers: Vec<Handler>,
}

impl Overhead {
    /// The statistics of an object's programs since they were loaded.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn of(object: &Object) -> Result<Self, Error> {
        let mut handlers = Vec::new();
        for program in object.progs().filter(|program| program.autoload()) {
            let info = info_of(&program).map_err(Error::system("read the programs' statistics"))?;
            handlers.push(Handler {
                name: program.name().to_string_lossy().into_owned(),
                runs: info.run_cnt,
                skipped: info.recursion_misses,
                run_ns: info.run_time_ns,
            });
        }
        Ok(Self { handlers })
    }

    /// Nanoseconds in all handlers together per request, for this many
    /// requests; `None` if none was recorded or times were not measured.
    #[must_use]
    pub fn ns_per_request(&self, requests: u64) -> Option<f64> {
        let run_ns: u64 = self.handlers.iter().map(|h| h.run_ns).sum();
        (requests > 0 && run_ns > 0).then(|| run_ns as f64 / requests as f64)
    }
}

/// The number of instructions of a loaded program after the verifier has rewritten it: an upper
/// bound of any path through a program without loops.
///
/// # Errors
/// The kernel does not report it.
pub fn translated_instructions(program: &impl AsFd) -> Result<u32, Error> {
    /// Bytes.
    const INSTRUCTION: u32 = 8;
    let info = info_of(program).map_err(Error::system("read the program's size"))?;
    Ok(info.xlated_prog_len / INSTRUCTION)
}

fn info_of(program: &impl AsFd) -> std::io::Result<libbpf_rs::libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_rs::libbpf_sys::bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: `info` is valid for writes of `size` bytes, and all zero, which
    // asks for no variable-length part.
    let result = unsafe {
        libbpf_rs::libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(info) } else { Err(std::io::Error::from_raw_os_error(-result)) }
}

/// Makes the kernel measure the run time of BPF programs as long as the result lives.
///
/// # Errors
/// The process may not (`CAP_SYS_ADMIN`).
pub fn measure_run_time() -> Result<OwnedFd, Error> {
    // SAFETY: no pointers are passed.
    let fd = unsafe {
        libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME)
    };
    if fd < 0 {
        let source = std::io::Error::from_raw_os_error(-fd);
        return Err(Error::System { what: "switch on the kernel's BPF statistics", source });
    }
    // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
