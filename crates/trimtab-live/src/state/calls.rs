//! What is done to the state from outside: by running programs of bpf/state_calls.h,
//! because nobody can write the memory but programs.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

use super::network::Ask;
use crate::record::Error;

/// Whether a program is one that is run, and not attached.
pub(super) fn is_one(program: &str) -> bool {
    ["tend", "say", "configure", "clear", "pretend", "ask"].contains(&program)
}

/// The programs, open.
pub(super) struct Calls {
    tend: OwnedFd,
    say: OwnedFd,
    configure: OwnedFd,
    clear: OwnedFd,
    /// Where there is a log.
    pretend: Option<OwnedFd>,
    /// Where networks may be loaded.
    ask: Option<OwnedFd>,
}

/// `struct st_tend`
#[repr(C)]
struct Tend {
    index: u32,
    forget: u32,
    now: u64,
}

/// `struct st_say`
#[repr(C)]
struct Say {
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

/// `struct st_pretend`
#[repr(C)]
struct Pretend {
    index: u32,
    kind: u32,
    key: u64,
    sector: u64,
}

/// For tests: what may happen to a read, by `enum st_kind`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Pretended {
    /// It has come into being.
    Arrived = 1,
    /// The driver has given it back.
    Requeued = 3,
    /// It has been answered.
    Answered = 6,
}

impl Calls {
    pub(super) fn of(object: &Object) -> Result<Self, Error> {
        let open = |name: &str| {
            let program = object.progs().find(|p| p.name() == name && p.autoload())?;
            let program = program.as_fd().try_clone_to_owned();
            Some(program.map_err(Error::system("keep the state's programs open")))
        };
        let needed = |name| open(name).expect("bpf/state_calls.h defines it");
        Ok(Self {
            tend: needed("tend")?,
            say: needed("say")?,
            configure: needed("configure")?,
            clear: needed("clear")?,
            pretend: open("pretend").transpose()?,
            ask: open("ask").transpose()?,
        })
    }

    /// Says that a drive's keeper lives, or goes; and which drive it is. False if the
    /// drive's network was at work, so that its verdicts were left alone.
    pub(super) fn say(&self, index: usize, attached: bool, number: u32) -> bool {
        let attached = attached.into();
        run(&self.say, &mut Say { index: index as u32, attached, number, reserved: 0 }) == 0
    }

    /// Looks after a drive that has not changed since: how much is left to do, less
    /// than 0 if it is just being changed.
    pub(super) fn tend(&self, index: usize, forget: bool, unless_changed_since: u64) -> i32 {
        let (index, forget) = (index as u32, forget.into());
        run(&self.tend, &mut Tend { index, forget, now: unless_changed_since })
    }

    /// Forgets the units of a drive that tells none apart.
    pub(super) fn clear(&self, index: usize) {
        run(&self.clear, &mut Configure { index: index as u32, reserved: 0 });
    }

    /// Begins anew with a drive, by the configuration on the desk, and with its units as
    /// they are; false if it is just being changed.
    pub(super) fn configure(&self, index: usize) -> bool {
        run(&self.configure, &mut Configure { index: index as u32, reserved: 0 }) == 0
    }

    /// For tests: something happens to a read that there is not.
    pub(super) fn pretend(&self, index: usize, what: Pretended, key: u64) {
        let program = self.pretend.as_ref().expect("there is a log");
        let (index, kind) = (index as u32, what as u32);
        run(program, &mut Pretend { index, kind, key, sector: key % 4096 * 8 });
    }

    /// What a drive's network makes of some digits; false if it is at work.
    pub(super) fn ask(&self, ask: &mut Ask) -> bool {
        self.ask.as_ref().is_some_and(|program| run(program, ask) == 0)
    }
}

/// Runs a program with what it is told, which is also where one of the kind `syscall` may
/// answer. Its value, or less than 0.
fn run<T>(program: &OwnedFd, what: &mut T) -> i32 {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        ctx_in: (&raw mut *what).cast(),
        ctx_size_in: size_of::<T>() as u32,
        ..Default::default()
    };
    // SAFETY: the options and what they point to live as long as the call, and any
    // bits that the kernel writes there are a value.
    let result = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 { result } else { options.retval.cast_signed() }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::{ObjectBuilder, ProgramType};

    use super::super::keeper::PROGRAMS;

    /// See bpf/state_calls.h.
    #[test]
    fn whoever_takes_a_lock_is_not_preempted() {
        let object = ObjectBuilder::default().open_memory(PROGRAMS).unwrap();
        for program in object.progs() {
            let name = program.name().to_string_lossy().into_owned();
            let expected = match name.as_str() {
                "clear" | "ask" => ProgramType::Syscall,
                "tend" | "say" | "configure" | "pretend" => ProgramType::RawTracepoint,
                _ => ProgramType::Tracing,
            };
            assert_eq!(program.prog_type(), expected, "{name}");
        }
    }
}
