use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Sender, channel};

use trimtab_io::Nanos;
use trimtab_predict::{HeuristicLimits, Label, LabelRule, Provenance, Trained};

use super::*;

/// A model identified by its name.
fn model(name: &str) -> Model {
    let slow = Nanos::from_millis(1);
    let training = Provenance {
        trace: name.to_owned(),
        fingerprint: String::new(),
        reads: 1,
        slow: 0,
        until: Nanos::ZERO,
        inflection_percentile: None,
        false_submit_rate: None,
        cost: None,
        seed: 1,
        fit: None,
    };
    let trained = Trained::HeurSim(HeuristicLimits { slow, high: 3, median: 2, low: 1 });
    Model::new(trained, LabelRule::default(), Label::Threshold { latency: slow }, training)
}

fn put(path: &Path, name: &str) {
    ModelFiles::create(path).unwrap().commit(&model(name)).unwrap();
}

fn name_in(path: &Path) -> String {
    Model::load(path).unwrap().card.training.trace
}

/// A training in progress that ends on request.
fn begun(path: &Path) -> (Training, Sender<()>) {
    let (go, told) = channel::<()>();
    let training = Training::start(path, move || {
        told.recv().map_err(|_| Error::TrainingPanicked)?;
        Ok(model("trained"))
    });
    (training, go)
}

#[test]
fn trained_model_replaces_its_files_and_keeps_their_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.safetensors");
    put(&path, "first");
    for file in [path.clone(), card_path(&path)] {
        // A mode that no umask produces.
        fs::set_permissions(file, Permissions::from_mode(0o604)).unwrap();
    }
    let (training, go) = begun(&path);
    go.send(()).unwrap();
    let Outcome::Trained(trained) = training.finish() else { panic!("is trained") };
    assert_eq!((trained.card.training.trace.as_str(), &*name_in(&path)), ("trained", "trained"));
    for file in [path.clone(), card_path(&path)] {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o604);
    }
}

#[test]
fn model_that_replaced_the_file_meanwhile_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.safetensors");
    put(&path, "first");
    let (mut training, go) = begun(&path);
    training.make_void();
    go.send(()).unwrap();
    assert!(matches!(training.finish(), Outcome::Void));
    assert_eq!(name_in(&path), "first");

    let (training, go) = begun(&path);
    put(&path, "by hand");
    go.send(()).unwrap();
    assert!(matches!(training.finish(), Outcome::Void));
    assert_eq!(name_in(&path), "by hand");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "something is left behind");
}

#[test]
fn failed_training_leaves_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.safetensors");
    put(&path, "first");
    let (training, go) = begun(&path);
    drop(go);
    assert!(matches!(training.finish(), Outcome::Failed(_)));
    assert_eq!(name_in(&path), "first");
}
