//! Calls into the kernel's programs (bpf/state_calls.h), because only programs can write the
//! state.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

use trimtab_bpf::Error;

use crate::network::Query;

/// Whether a program is called rather than attached to a tracepoint.
pub(crate) fn is_callable(program: &str) -> bool {
    ["housekeep", "heartbeat", "configure", "clear", "inject_event", "query_network"]
        .contains(&program)
}

/// The programs' file descriptors.
pub(crate) struct Calls {
    housekeep: OwnedFd,
    heartbeat: OwnedFd,
    configure: OwnedFd,
    clear: OwnedFd,
    /// For tests only.
    inject_event: Option<OwnedFd>,
    /// For tests only.
    query_network: Option<OwnedFd>,
}

/// `struct st_housekeep`
#[repr(C)]
struct Housekeep {
    index: u32,
    forget: u32,
    now_ns: u64,
}

/// `struct st_heartbeat`
#[repr(C)]
struct Heartbeat {
    index: u32,
    attached: u32,
    number: u32,
    reserved: u32,
}

/// `struct st_configure`
#[repr(C)]
struct Configure {
    index: u32,
    reserved: u32,
}

/// `struct st_injected`
#[repr(C)]
struct Injected {
    index: u32,
    kind: u32,
    key: u64,
    sector: u64,
}

/// For tests: an event of a read, by `enum st_kind`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum InjectedEvent {
    /// It arrived.
    Arrived = 1,
    /// The driver returned it to the queue.
    Requeued = 3,
    /// It completed.
    Answered = 6,
}

impl Calls {
    pub(crate) fn of(object: &Object) -> Result<Self, Error> {
        let open = |name: &str| {
            let program = object.progs().find(|p| p.name() == name && p.autoload())?;
            let program = program.as_fd().try_clone_to_owned();
            Some(program.map_err(Error::system("keep the state's programs open")))
        };
        let needed = |name| open(name).expect("bpf/state_calls.h defines it");
        Ok(Self {
            housekeep: needed("housekeep")?,
            heartbeat: needed("heartbeat")?,
            configure: needed("configure")?,
            clear: needed("clear")?,
            inject_event: open("inject_event").transpose()?,
            query_network: open("query_network").transpose()?,
        })
    }

    /// Reports that the tracker of a drive runs or stops, and the drive's number. Returns
    /// false if the drive's network was busy, so that its decisions were not updated.
    pub(crate) fn heartbeat(&self, index: usize, attached: bool, number: u32) -> bool {
        let attached = attached.into();
        run(&self.heartbeat, &mut Heartbeat { index: index as u32, attached, number, reserved: 0 })
            == 0
    }

    /// Drains the queue of a drive that has not changed since, and reaps its lost requests if
    /// `forget` is set. Returns a positive number if more may be left, a negative one if the
    /// state is being written.
    pub(crate) fn housekeep(&self, index: usize, forget: bool, unless_changed_since: u64) -> i32 {
        let (index, forget) = (index as u32, forget.into());
        run(&self.housekeep, &mut Housekeep { index, forget, now_ns: unless_changed_since })
    }

    /// Clears the units of a drive without unit functions.
    pub(crate) fn clear(&self, index: usize) {
        run(&self.clear, &mut Configure { index: index as u32, reserved: 0 });
    }

    /// Resets the state of a drive except its units, and applies the staged configuration.
    /// Returns false if the state is being written.
    pub(crate) fn configure(&self, index: usize) -> bool {
        run(&self.configure, &mut Configure { index: index as u32, reserved: 0 }) == 0
    }

    /// For tests: injects an event of a fictitious read.
    pub(crate) fn inject_event(&self, index: usize, event: InjectedEvent, key: u64) {
        let program = self.inject_event.as_ref().expect("loaded for tests");
        let (index, kind) = (index as u32, event as u32);
        run(program, &mut Injected { index, kind, key, sector: key % 4096 * 8 });
    }

    /// For tests: evaluates a drive's network on some digits. Returns false if it is busy.
    pub(crate) fn query_network(&self, query: &mut Query) -> bool {
        self.query_network.as_ref().is_some_and(|program| run(program, query) == 0)
    }
}

/// Runs a program on its argument, to which a program of the type `syscall` may also write its
/// result. Returns its value, or a negative error.
fn run<T>(program: &OwnedFd, argument: &mut T) -> i32 {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        ctx_in: (&raw mut *argument).cast(),
        ctx_size_in: size_of::<T>() as u32,
        ..Default::default()
    };
    // SAFETY: the options and the memory that they point to live as long as the call, and any
    // bits that the kernel writes there are valid.
    let result = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 { result } else { options.retval.cast_signed() }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::{ObjectBuilder, ProgramType};
    use trimtab_bpf::mirrors;

    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_header() {
        let object = trimtab_bpf::STATE;
        mirrors!(object, "st_housekeep" => Housekeep { index, forget, now_ns });
        mirrors!(object, "st_heartbeat" => Heartbeat { index, attached, number });
        mirrors!(object, "st_configure" => Configure { index });
        mirrors!(object, "st_injected" => Injected { index, kind, key, sector });
    }

    /// See bpf/state_calls.h.
    #[test]
    fn programs_that_take_a_lock_are_not_preempted() {
        let object = ObjectBuilder::default().open_memory(trimtab_bpf::STATE).unwrap();
        for program in object.progs() {
            let name = program.name().to_string_lossy().into_owned();
            let expected = match name.as_str() {
                "clear" | "query_network" => ProgramType::Syscall,
                name if is_callable(name) => ProgramType::RawTracepoint,
                _ => ProgramType::Tracing,
            };
            assert_eq!(program.prog_type(), expected, "{name}");
        }
    }
}
