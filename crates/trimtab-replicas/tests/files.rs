//! Sets of files: what is read, and what cannot be opened.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;

use tempfile::TempDir;
use trimtab_replicas::{OpenError, ReadError, ReplicaOptions, ReplicaSet, SetOptions};

const BYTES: usize = 3 * (1 << 20) + 777;

fn content() -> Vec<u8> {
    (0..BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Files with this content.
fn files(directory: &Path, contents: &[&[u8]]) -> Vec<PathBuf> {
    let write = |(number, content): (usize, &&[u8])| {
        let path = directory.join(format!("replica-{number}"));
        fs::write(&path, content).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        path
    };
    contents.iter().enumerate().map(write).collect()
}

fn open(paths: &[PathBuf], options: &SetOptions) -> Result<ReplicaSet, OpenError> {
    ReplicaSet::open(paths.iter().map(ReplicaOptions::new), options)
}

/// Reads everywhere, of all lengths, from several threads.
fn reads_are_right(set: &ReplicaSet, content: &[u8]) {
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut buffer = vec![0; 2 << 20];
                let mut random = 1 + thread;
                for i in 0..300 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let offset = (random >> 33) as usize % BYTES;
                    let length = match i % 10 {
                        0 => (random >> 20) as usize % buffer.len(),
                        1 => 0,
                        _ => (random >> 20) as usize % 9000,
                    };
                    let bytes = set.read_at(&mut buffer[..length], offset as u64).unwrap();
                    assert_eq!(bytes, length.min(BYTES - offset), "{offset}, {length}");
                    assert!(buffer[..bytes] == content[offset..offset + bytes], "{offset}");
                }
            });
        }
    });
    let figures = set.figures();
    let served: u64 = figures.replicas.iter().map(|replica| replica.served).sum();
    assert_eq!((served, figures.errors, figures.timed_out), (figures.reads, 0, 0), "{figures:?}");
    assert!(figures.replicas.iter().all(|replica| replica.served > 0), "{figures:?}");
    let sent: u64 = figures.replicas.iter().map(|replica| replica.sent).sum();
    assert_eq!(figures.extra, sent - figures.reads);
}

#[test]
fn data_are_those_of_the_files_in_all_modes() {
    let directory = TempDir::new().unwrap();
    let content = content();
    let paths = files(directory.path(), &[&*content; 3]);
    let set = open(&paths, &SetOptions::default()).unwrap();
    assert_eq!((set.replicas(), set.length()), (3, BYTES as u64));
    reads_are_right(&set, &content);
    assert_eq!(set.read_at(&mut [0; 10], BYTES as u64 + 5).unwrap(), 0);
    let mut page = [0; 4096];
    let beyond = set.read_exact_at(&mut page, BYTES as u64 - 5).unwrap_err();
    assert!(matches!(beyond, ReadError::Io(e) if e.kind() == std::io::ErrorKind::UnexpectedEof));
    let far = std::io::Error::from(set.read_at(&mut page, u64::MAX - 5).unwrap_err());
    assert_eq!(far.raw_os_error(), Some(libc_einval()));

    // Not aligned for direct I/O, neither offsets nor lengths nor buffers.
    let is_direct = File::options().read(true).custom_flags(0o40000).open(&paths[0]);
    if is_direct.is_ok_and(|file| file.read_at(&mut aligned().0, 0).is_ok()) {
        let direct = SetOptions { direct: true, ..SetOptions::default() };
        reads_are_right(&open(&paths, &direct).unwrap(), &content);
    }
}

#[repr(align(4096))]
struct Aligned([u8; 4096]);

fn aligned() -> Aligned {
    Aligned([0; 4096])
}

fn libc_einval() -> i32 {
    rustix::io::Errno::INVAL.raw_os_error()
}

#[test]
fn truncated_replica_counts_as_failed() {
    let directory = TempDir::new().unwrap();
    let content = content();
    let paths = files(directory.path(), &[&*content; 2]);
    let set = open(&paths, &SetOptions::default()).unwrap();
    File::options().write(true).open(&paths[0]).unwrap().set_len(4096).unwrap();
    let mut page = [0; 4096];
    for i in 0..100 {
        let offset = i * 30_011;
        assert_eq!(set.read_at(&mut page, offset).unwrap(), 4096);
        assert!(page == content[offset as usize..offset as usize + 4096]);
    }
    let figures = set.figures();
    assert!(figures.replicas[0].errors > 0 && figures.errors == 0, "{figures:?}");
    // If all are shorter, so is the read, as by `pread`.
    File::options().write(true).open(&paths[1]).unwrap().set_len(4096).unwrap();
    assert_eq!(set.read_at(&mut page, 4000).unwrap(), 96);
}

#[test]
fn what_is_no_set_is_one_line() {
    let directory = TempDir::new().unwrap();
    let (short, long) = (vec![1; 4096], vec![1; 8192]);
    let mut paths = files(directory.path(), &[&short, &short, &long]);
    let missing = directory.path().join("missing");
    let linked = directory.path().join("linked");
    fs::hard_link(&paths[0], &linked).unwrap();
    let many: Vec<_> = (0..9).map(|_| paths[0].clone()).collect();
    let of = |paths: &[PathBuf]| {
        let error = open(paths, &SetOptions::default()).unwrap_err();
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line}");
        (error, line)
    };
    let (long, second, first) = (paths.pop().unwrap(), paths.pop().unwrap(), paths.pop().unwrap());
    assert_eq!(of(&[]).1, "a set has 2 to 8 replicas, not 0");
    assert_eq!(of(std::slice::from_ref(&first)).1, "a set has 2 to 8 replicas, not 1");
    assert!(matches!(of(&many).0, OpenError::Count(9)));
    let (error, line) = of(&[first.clone(), second.clone(), long.clone()]);
    assert!(matches!(error, OpenError::Length { replica: 2, length: 8192, expected: 4096, .. }));
    assert!(line.contains("must have the same content"), "{line}");
    // In any order: the first one that differs from replica 0 is named.
    let (error, _) = of(&[long.clone(), first.clone(), second.clone()]);
    assert!(matches!(error, OpenError::Length { replica: 1, length: 4096, expected: 8192, .. }));
    let (error, line) = of(&[first.clone(), first.clone()]);
    assert!(matches!(error, OpenError::Same { first: 0, second: 1, .. }), "{line}");
    let (error, line) = of(&[first.clone(), second, linked]);
    assert!(matches!(error, OpenError::Same { first: 0, second: 2, .. }));
    assert!(line.contains("are the same file"), "{line}");
    let (error, line) = of(&[first.clone(), missing.clone()]);
    assert!(matches!(error, OpenError::Replica { replica: 1, .. }));
    assert!(line.contains("missing") && line.contains("No such file"), "{line}");
    let (error, line) = of(&[missing.clone(), first.clone(), long.clone()]);
    assert!(matches!(error, OpenError::Replica { replica: 0, .. }), "{line}");
    let (error, line) = of(&[missing.clone(), directory.path().join("neither")]);
    assert!(matches!(error, OpenError::None { count: 2, .. }), "{line}");
    let (error, line) = of(&[first.clone(), directory.path().to_owned()]);
    assert!(matches!(error, OpenError::Kind { replica: 1, .. }) && line.contains("a directory"));

    let wrong = |options: SetOptions| open(&[first.clone(), long.clone()], &options).unwrap_err();
    let much = wrong(SetOptions { most_extra: 1.5, ..SetOptions::default() });
    assert!(matches!(much, OpenError::Option(_)), "{much}");
    let never = Some(std::time::Duration::ZERO);
    let never = wrong(SetOptions { deadline: never, ..SetOptions::default() });
    assert!(matches!(never, OpenError::Option(_)), "{never}");
}

#[test]
fn eight_replicas_are_a_set_and_nine_are_not() {
    let directory = TempDir::new().unwrap();
    let content = content();
    let mut paths = files(directory.path(), &[&*content; 9]);
    let nine = open(&paths, &SetOptions::default()).unwrap_err();
    assert_eq!(nine.to_string(), "a set has 2 to 8 replicas, not 9");
    paths.pop();
    let set = open(&paths, &SetOptions::default()).unwrap();
    let mut page = [0; 4096];
    set.read_exact_at(&mut page, 8192).unwrap();
    assert!(set.replicas() == 8 && page == content[8192..12288]);
}

/// The copies of a thread's data are its own, also when sets and threads come and go.
#[test]
fn sets_and_threads_come_and_go() {
    let directory = TempDir::new().unwrap();
    let content = content();
    let paths = files(directory.path(), &[&*content; 2]);
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let mut page = [0; 4096];
    let mut before = 0;
    for round in 0..20 {
        let set = open(&paths, &SetOptions::default()).unwrap();
        set.read_exact_at(&mut page, 4096).unwrap();
        let other = thread::scope(|scope| {
            let read = || {
                let mut page = [0; 4096];
                set.read_exact_at(&mut page, 8192).map(|()| page)
            };
            scope.spawn(read).join().unwrap().unwrap()
        });
        assert!(page == content[4096..8192] && other == content[8192..12288]);
        if round == 2 {
            before = descriptors();
        }
    }
    // Tests run beside each other; without closing there would be sixty.
    assert!(descriptors() < before + 40, "{} and {before}", descriptors());
}
