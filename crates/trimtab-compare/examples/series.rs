//! Experiments.
use trimtab_compare::BuiltinTrainer;
use trimtab_compare::random::{SeriesOptions, rows, run_series};
fn main() {
    let mut args = std::env::args().skip(1);
    let seed: u64 = args.next().unwrap().parse().unwrap();
    let first: u64 = args.next().unwrap().parse().unwrap();
    let arrays: u64 = args.next().unwrap().parse().unwrap();
    let out = args.next().unwrap();
    let rows_: Vec<String> = args.collect();
    let options = SeriesOptions {
        arrays,
        first,
        seed,
        rows: rows_,
        settings: String::new(),
        threads: 2,
        until: None,
    };
    let names: Vec<_> = rows(&options).unwrap().into_iter().map(|r| r.name).collect();
    let series = run_series(&options, &BuiltinTrainer, &|r| {
        if let Err((n, e)) = r {
            eprintln!("array {n}: {e}");
        }
    })
    .unwrap();
    let json = serde_json::json!({ "strategies": names, "arrays": series.results });
    std::fs::write(out, json.to_string()).unwrap();
}
