use libbpf_rs::ObjectBuilder;
use trimtab_testdisk::{self as disk, Feature};

use super::*;

/// The most instructions that an admitted read may cost.
const MOST: usize = 300;

/// The instructions as compiled: `(code, jump)`.
fn compiled(program: &str) -> Vec<(u8, i16)> {
    let object = ObjectBuilder::default().open_memory(REFUSE).unwrap();
    let found = object.progs().find(|found| found.name() == program).unwrap();
    found.insns().iter().map(|instruction| (instruction.code, instruction.off)).collect()
}

#[test]
fn longest_path_is_bounded_since_nothing_jumps_back() {
    /// Classes and operations of jumps (Documentation/bpf/standardization/instruction-set.rst).
    const JUMPS: [u8; 2] = [0x05, 0x06];
    const CALL: u8 = 0x80;
    const EXIT: u8 = 0x90;
    for program in ["on_permission", "on_open"] {
        let instructions = compiled(program);
        assert!(instructions.len() <= MOST, "{program} has {}", instructions.len());
        for (code, offset) in instructions {
            let is_jump = JUMPS.contains(&(code & 7)) && ![CALL, EXIT].contains(&(code & 0xf0));
            assert!(!is_jump || offset >= 0, "{program} has a loop");
        }
    }
}

/// What the kernel runs is longer than what was compiled: it inlines look-ups.
#[test]
fn kernel_runs_few_instructions_for_an_admitted_read() {
    if !disk::requires(&[Feature::Root, Feature::Bpf]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let pattern = Pattern::parse(directory.path().join("*").to_str().unwrap()).unwrap();
    let expect = Expect::Assumed(Nanos::ZERO);
    let limits = Limits { limit: Nanos(1), stale: Nanos(1), share: 1 };
    let attached = ProgramGroup::make()
        .and_then(|group| Refuser::attach(&group, vec![pattern], expect, limits));
    match attached {
        Ok(refuser) => {
            let instructions = refuser.instructions() as usize;
            disk::note(&format!("the kernel runs at most {instructions} instructions a read"));
            let compiled = compiled("on_permission").len();
            assert!(compiled <= instructions && instructions <= MOST, "{instructions}");
            assert_eq!(refuser.decisions().unwrap(), Decisions::default());
        }
        Err(e @ Error::Kernel(_)) => disk::skip(Feature::BpfLsm, &e.to_string()),
        Err(e) => panic!("{e}"),
    }
}
