//! Devices and files that the kernel's NVMe target exports. It opens them without claiming them, so that
//! nothing else shows that hosts use them.

use std::fs;
use std::path::Path;

use super::number::Identity;

/// The target's subsystems, in configfs.
const SUBSYSTEMS: &str = "/sys/kernel/config/nvmet/subsystems";

/// What is exported, and the qualified name of its subsystem.
pub(super) fn all() -> Vec<(Identity, String)> {
    among(Path::new(SUBSYSTEMS))
}

fn among(subsystems: &Path) -> Vec<(Identity, String)> {
    let mut found = Vec::new();
    for subsystem in fs::read_dir(subsystems).into_iter().flatten().flatten() {
        let namespaces = fs::read_dir(subsystem.path().join("namespaces"));
        for namespace in namespaces.into_iter().flatten().flatten() {
            let attribute = |name| fs::read_to_string(namespace.path().join(name));
            let is_enabled = attribute("enable").is_ok_and(|enabled| enabled.trim() == "1");
            let Ok(path) = attribute("device_path") else { continue };
            let metadata = is_enabled.then(|| fs::metadata(path.trim()).ok()).flatten();
            let identity = metadata.and_then(|metadata| Identity::of_metadata(&metadata));
            let nqn = subsystem.file_name().to_string_lossy().into_owned();
            found.extend(identity.map(|identity| (identity, nqn)));
        }
    }
    found
}

/// The qualified name of the NVMe drive as which a device or file is exported, if it is.
#[must_use]
pub fn exported_as(path: &Path) -> Option<String> {
    let identity = Identity::of_metadata(&fs::metadata(path).ok()?)?;
    all().into_iter().find(|(exported, _)| *exported == identity).map(|(_, nqn)| nqn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enabled_namespaces_are_found_by_what_they_export() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "content").unwrap();
        let identity = Identity::of_metadata(&fs::metadata(&file).unwrap()).unwrap();
        let subsystems = directory.path().join("subsystems");
        for (nqn, enable) in [("nqn.a", "0\n"), ("nqn.b", "1\n")] {
            let namespace = subsystems.join(nqn).join("namespaces/1");
            fs::create_dir_all(&namespace).unwrap();
            fs::write(namespace.join("enable"), enable).unwrap();
            fs::write(namespace.join("device_path"), format!("{}\n", file.display())).unwrap();
        }
        let gone = subsystems.join("nqn.c/namespaces/1");
        fs::create_dir_all(&gone).unwrap();
        fs::write(gone.join("enable"), "1").unwrap();
        fs::write(gone.join("device_path"), "/nowhere").unwrap();
        assert_eq!(among(&subsystems), [(identity, "nqn.b".to_owned())]);
        assert_eq!(among(&directory.path().join("nowhere")), []);
    }
}
