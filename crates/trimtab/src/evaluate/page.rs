//! The scores as a page with charts.

use trimtab_report::chart::{self, Axis, BinnedSeries, Chart, LineSeries, Unit};
use trimtab_report::{Facts, Page, Section, count};

use super::summary::{PredictorSummary, Summary};
use super::table;
use crate::units;

/// Features whose importance is shown.
const FEATURES: usize = 16;
/// Shares of fewer reads are not shown.
const FEWEST: u64 = 20;
/// The bins of the calibration plot.
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

pub(super) fn page(summaries: &[Summary]) -> Page {
    let mut facts = Facts::new();
    let traces: Vec<&str> = summaries.iter().map(|summary| summary.trace.as_str()).collect();
    facts.add("recordings", traces.join(", "));
    let first = &summaries[0];
    facts.add("protocol", table::protocol(first));
    if let Some(seed) = first.seed {
        facts.add("seed", seed.to_string());
    }
    facts.add("made by", format!("trimtab {}", first.trimtab));
    facts.add("made on", &first.machine);
    let title = match summaries {
        [only] => format!("Predictors on {}", only.trace),
        several => format!("Predictors on {} recordings", several.len()),
    };
    let mut page = Page::new(title, facts);
    for one in summaries {
        let of = if summaries.len() > 1 { format!("{}: ", one.trace) } else { String::new() };
        page.verdict(of + &verdict(one));
    }
    for summary in summaries {
        page.section(section(summary));
    }
    page
}

/// An AUC below which slow reads are hardly distinguished from fast ones: one half is chance.
const USEFUL_AUC: f64 = 0.6;

/// The result in a few sentences.
fn verdict(summary: &Summary) -> String {
    let reads = count(summary.reads_scored as u64);
    let Some(slow) = summary.slow_share() else {
        return format!("Each model was evaluated on {reads} reads, by its own label.");
    };
    let mut text = format!("{} of {reads} reads evaluated on were slow.", units::percent(slow));
    let aucs = summary.predictors.iter().filter_map(|p| Some((p, p.score.auc?)));
    let Some((best, auc)) = aucs.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return text + " There was nothing to tell apart.";
    };
    let name = best.name();
    if auc < USEFUL_AUC {
        return text
            + &format!(
                " No predictor separates them from fast ones: the best, {name}, has an AUC of \
                 {auc:.3}, where chance has 0.5."
            );
    }
    text += &format!(" {name} separates them best from fast ones (AUC {auc:.3}");
    if let Some(accuracy) = best.score.accuracy {
        text += &format!(", {} of its predictions right", units::percent(accuracy));
    }
    text += ").";
    if slow > 0.0 {
        let missed = best.score.false_submits_of_all / slow;
        text += &format!(
            " Refusing by it would have avoided {} of the slow reads, and needlessly refused {} of \
             the fast ones.",
            units::percent(1.0 - missed),
            units::percent(best.score.false_revokes_of_all / (1.0 - slow).max(f64::MIN_POSITIVE))
        );
    }
    if summary.requests_without_latency > 0 {
        let without = count(summary.requests_without_latency);
        text += &format!(" {without} requests without a latency were left out.");
    }
    text
}

fn section(summary: &Summary) -> Section {
    let mut section = Section::new(&summary.trace);
    let mut facts = Facts::new();
    facts.add("slow", table::label(summary));
    if let Some(reads) = summary.reads_trained_on {
        facts.add("reads trained on", count(reads as u64));
    }
    for predictor in &summary.predictors {
        if let Some(model) = &predictor.model {
            let of = predictor.label.as_ref().map(|label| format!("; {}", table::own_label(label)));
            facts.add(&model.file, table::origin(model) + &of.unwrap_or_default());
        }
    }
    let slow = summary.slow_share().map(|slow| format!(", {} of them slow", units::percent(slow)));
    let reads = count(summary.reads_scored as u64);
    facts.add("reads evaluated on", reads + &slow.unwrap_or_default());
    if summary.requests_without_latency > 0 {
        let requests = count(summary.requests_without_latency);
        facts.add("requests without a latency, left out", requests);
    }
    for (name, drift) in table::drifts(summary) {
        facts.add(format!("drift of {name}"), drift);
    }
    section.facts(facts);
    section.table(table::scores(summary));
    if summary.slow_share().is_some_and(|slow| slow <= 0.0 || slow >= 1.0) {
        section.note("All reads evaluated on are slow, or all are fast: there is nothing to draw.");
        return section;
    }
    section.chart(roc(summary));
    section.chart(precision_recall(summary));
    section.chart(calibration(summary));
    section.chart(probabilities(summary));
    for predictor in &summary.predictors {
        section_importance(&mut section, predictor);
    }
    section
}

fn lines(
    summary: &Summary,
    points: impl Fn(&PredictorSummary) -> Vec<[f64; 2]>,
) -> Vec<LineSeries> {
    // trimtab is last in the table but first in a chart: the first line is drawn on top.
    let line = |score: &PredictorSummary| {
        let points = points(score).into_iter().map(|[x, y]| (x, Some(y))).collect();
        LineSeries { name: score.name(), points }
    };
    summary.predictors.iter().rev().map(line).collect()
}

fn share(title: &str) -> Axis {
    Axis::new(title, Unit::Plain).with_range(0.0, 1.0)
}

fn roc(summary: &Summary) -> Chart {
    let (x, y) = (share("fast reads refused (share)"), share("slow reads refused (share)"));
    let lines = lines(summary, |one| one.score.roc.clone());
    chart::line("ROC: slow reads refused over fast reads refused", &x, &y, &lines)
        .with_diagonal()
        .with_note("Each point is another probability to refuse from. The diagonal is chance.")
}

fn precision_recall(summary: &Summary) -> Chart {
    let (x, y) = (share("slow reads refused (share)"), share("slow among the refused (share)"));
    let lines = lines(summary, |one| one.score.precision_recall.clone());
    let chart = chart::line("Precision over recall", &x, &y, &lines);
    let Some(slow) = summary.slow_share().map(units::percent) else { return chart };
    chart.with_note(format!("Of all reads, {slow} are slow: that is what chance would give."))
}

fn calibration(summary: &Summary) -> Chart {
    let (x, y) = (share("probability predicted"), share("slow reads (share)"));
    let lines = lines(summary, |one| {
        one.score.bins.iter().map(|bin| [bin.probability, bin.slow]).collect()
    });
    chart::line("Calibration: is the probability right?", &x, &y, &lines)
        .with_diagonal()
        .with_points()
        .with_note(format!(
            "On the diagonal it is. Only trimtab is trained to give a probability; what the \
             others give orders reads, and passes one half where they refuse. Each point is of \
             {FEWEST} reads or more."
        ))
}

fn probabilities(summary: &Summary) -> Chart {
    let series: Vec<BinnedSeries> = summary
        .predictors
        .iter()
        .rev()
        .map(|one| {
            let mut values = vec![Some(0.0); TENTHS.len()];
            for bin in &one.score.bins {
                let tenth = (bin.probability * 10.0) as usize;
                values[tenth.min(9)] = Some(bin.count as f64);
            }
            BinnedSeries { name: one.name(), values }
        })
        .collect();
    let y = Axis::new("reads", Unit::Plain);
    chart::bars("Reads by predicted probability", "probability predicted", &y, &TENTHS, &series)
}

fn section_importance(section: &mut Section, predictor: &PredictorSummary) {
    let strongest = &predictor.importance[..predictor.importance.len().min(FEATURES)];
    if strongest.is_empty() {
        return;
    }
    let names: Vec<&str> = strongest.iter().map(|one| one.feature.as_str()).collect();
    let values = strongest.iter().map(|one| Some(100.0 * one.auc_lost)).collect();
    let series = [BinnedSeries { name: predictor.name(), values }];
    let y = Axis::new("AUC lost (hundredths)", Unit::Plain);
    let title = format!("Feature importance of {}", predictor.name());
    section.chart(chart::bars(&title, "feature", &y, &names, &series).with_note(
        "The fall of the area under the ROC curve if a feature is permuted among the reads. Of \
         features that carry the same information each replaces the other, so both show little \
         importance.",
    ));
}
