//! The scores as a page with plots.

use trimtab_report::chart::{self, Axis, BinnedSeries, Chart, LineSeries, Unit};
use trimtab_report::{Facts, Page, Section, count};

use super::{Told, ToldScore, table};
use crate::units;

/// Numbers whose importance is shown.
const NUMBERS: usize = 16;
/// A share of fewer reads is not shown.
const FEWEST: u64 = 20;
/// The bins of a calibration.
const TENTHS: [&str; 10] = [
    "0–10%",
    "10–20%",
    "20–30%",
    "30–40%",
    "40–50%",
    "50–60%",
    "60–70%",
    "70–80%",
    "80–90%",
    "90–100%",
];

pub(super) fn page(told: &[Told]) -> Page {
    let mut facts = Facts::new();
    let traces: Vec<&str> = told.iter().map(|told| told.trace.as_str()).collect();
    facts.add("recordings", traces.join(", "));
    let first = &told[0];
    facts.add("protocol", table::protocol(first));
    if let Some(seed) = first.seed {
        facts.add("seed", seed.to_string());
    }
    facts.add("made by", format!("trimtab {}", first.trimtab));
    facts.add("made on", &first.machine);
    let title = match told {
        [only] => format!("Predictors on {}", only.trace),
        several => format!("Predictors on {} recordings", several.len()),
    };
    let mut page = Page::new(title, facts);
    for one in told {
        let of = if told.len() > 1 { format!("{}: ", one.trace) } else { String::new() };
        page.verdict(of + &verdict(one));
    }
    for told in told {
        page.section(section(told));
    }
    page
}

/// An AUC below which slow reads are hardly told from fast ones: one half is chance.
const USEFUL_AUC: f64 = 0.6;

/// What came out, in a few sentences.
fn verdict(told: &Told) -> String {
    let (slow, reads) = (told.label.slow_share, count(told.reads_judged as u64));
    let mut text = format!("{} of {reads} reads judged were slow.", units::percent(slow));
    let aucs = told.predictors.iter().filter_map(|p| Some((p, p.score.auc?)));
    let Some((best, auc)) = aucs.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return text + " There was nothing to tell apart.";
    };
    let name = best.name();
    if auc < USEFUL_AUC {
        return text
            + &format!(
                " No predictor can tell them from fast ones: the best, {name}, has an AUC of \
                 {auc:.3}, where chance has 0.5."
            );
    }
    text += &format!(" {name} tells them apart best (AUC {auc:.3}");
    if let Some(accuracy) = best.score.accuracy {
        text += &format!(", {} of its verdicts right", units::percent(accuracy));
    }
    text += ").";
    if slow > 0.0 {
        let missed = best.score.false_submits_of_all / slow;
        text += &format!(
            " Refusing by it would have spared {} of the slow reads, and refused {} of the fast \
             ones in vain.",
            units::percent(1.0 - missed),
            units::percent(best.score.false_revokes_of_all / (1.0 - slow).max(f64::MIN_POSITIVE))
        );
    }
    if told.requests_without_latency > 0 {
        let without = count(told.requests_without_latency);
        text += &format!(" {without} requests without a latency were left out.");
    }
    text
}

fn section(told: &Told) -> Section {
    let mut section = Section::new(&told.trace);
    let mut facts = Facts::new();
    facts.add("slow", table::label(told));
    if let Some(reads) = told.reads_trained_on {
        facts.add("reads trained on", count(reads as u64));
    }
    for score in &told.predictors {
        if let Some(model) = &score.model {
            facts.add(&model.file, table::origin(model));
        }
    }
    let slow = units::percent(told.label.slow_share);
    facts.add(
        "reads judged by",
        format!("{}, {slow} of them slow", count(told.reads_judged as u64)),
    );
    if told.requests_without_latency > 0 {
        let requests = count(told.requests_without_latency);
        facts.add("requests without a latency, left out", requests);
    }
    for (name, drift) in table::drifts(told) {
        facts.add(format!("drift of {name}"), drift);
    }
    section.facts(facts);
    section.table(table::scores(told));
    if !(told.label.slow_share > 0.0 && told.label.slow_share < 1.0) {
        section.note("All reads judged by are alike, slow or fast: there is nothing to draw.");
        return section;
    }
    section.chart(roc(told));
    section.chart(precision_recall(told));
    section.chart(calibration(told));
    section.chart(probabilities(told));
    for score in &told.predictors {
        section_importance(&mut section, score);
    }
    section
}

fn lines(told: &Told, points: impl Fn(&ToldScore) -> Vec<[f64; 2]>) -> Vec<LineSeries> {
    // Ours last in the table, first in a chart: what is first is drawn on top.
    let line = |score: &ToldScore| {
        let points = points(score).into_iter().map(|[x, y]| (x, Some(y))).collect();
        LineSeries { name: score.name(), points }
    };
    told.predictors.iter().rev().map(line).collect()
}

fn share(title: &str) -> Axis {
    Axis::new(title, Unit::Plain).with_range(0.0, 1.0)
}

fn roc(told: &Told) -> Chart {
    let (x, y) = (share("fast reads refused (share)"), share("slow reads refused (share)"));
    let lines = lines(told, |told| told.score.roc.clone());
    chart::line("ROC: what refusing more would bring", &x, &y, &lines)
        .with_diagonal()
        .with_note("Each point is another probability to refuse from. The diagonal is chance.")
}

fn precision_recall(told: &Told) -> Chart {
    let (x, y) = (share("slow reads refused (share)"), share("slow among the refused (share)"));
    let lines = lines(told, |told| told.score.precision_recall.clone());
    let slow = units::percent(told.label.slow_share);
    chart::line("Precision over recall", &x, &y, &lines)
        .with_note(format!("Of all reads, {slow} are slow: that is what chance would give."))
}

fn calibration(told: &Told) -> Chart {
    let (x, y) = (share("probability predicted"), share("slow reads (share)"));
    let lines =
        lines(told, |told| told.score.bins.iter().map(|bin| [bin.probability, bin.slow]).collect());
    chart::line("Calibration: is the probability right?", &x, &y, &lines)
        .with_diagonal()
        .with_points()
        .with_note(format!(
            "On the diagonal it is. Only trimtab is trained to give a probability; what the \
             others give orders reads, and passes one half where they refuse. Each point is of \
             {FEWEST} reads or more."
        ))
}

fn probabilities(told: &Told) -> Chart {
    let series: Vec<BinnedSeries> = told
        .predictors
        .iter()
        .rev()
        .map(|told| {
            let mut values = vec![Some(0.0); TENTHS.len()];
            for bin in &told.score.bins {
                let tenth = (bin.probability * 10.0) as usize;
                values[tenth.min(9)] = Some(bin.count as f64);
            }
            BinnedSeries { name: told.name(), values }
        })
        .collect();
    let y = Axis::new("reads", Unit::Plain);
    chart::bars("Reads by predicted probability", "probability predicted", &y, &TENTHS, &series)
}

fn section_importance(section: &mut Section, told: &ToldScore) {
    let strongest = &told.importance[..told.importance.len().min(NUMBERS)];
    if strongest.is_empty() {
        return;
    }
    let names: Vec<&str> = strongest.iter().map(|one| one.feature.as_str()).collect();
    let values = strongest.iter().map(|one| Some(100.0 * one.auc_lost)).collect();
    let series = [BinnedSeries { name: told.name(), values }];
    let y = Axis::new("AUC lost (hundredths)", Unit::Plain);
    let title = format!("What {} goes by", told.name());
    section.chart(chart::bars(&title, "number it decides by", &y, &names, &series).with_note(
        "What the area under the ROC curve falls by if a number is shuffled among the reads. \
         Numbers that say the same stand in for each other, and seem to matter little.",
    ));
}
