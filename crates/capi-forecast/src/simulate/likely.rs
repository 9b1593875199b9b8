//! Between which ends a duration likely lies: the Cluster is run ahead several times, each step as long as chance has it. Owns how many
//! runs that takes and what their durations say of the next one; must not know how a run goes.

use capstan_base::rng::Rng;

use super::outcome::Duration;
use super::timing::{Chance, Tempo, normal};

/// What a forecast says must not depend on when it is asked for.
const SEED: u64 = 10_90;
/// So many runs by chance, and so many where each takes more than a tenth of a second or so.
const RUNS: usize = 9;
const RUNS_OF_LARGE: usize = 4;
const LARGE_RUNS: u64 = 1_500;

/// The tempos of the runs by chance, for a Cluster whose usual run took `controller_runs` runs of controllers.
pub(super) fn tempos(controller_runs: u64) -> Vec<Tempo> {
    let count = if controller_runs > LARGE_RUNS { RUNS_OF_LARGE } else { RUNS };
    let tempo = |at: usize| {
        let rng = Rng::seeded(SEED).stream(&format!("run {at}"));
        Tempo::Likely(Chance { pace: normal(&rng), rng })
    };
    (0..count).map(tempo).collect()
}

/// The range in which eight of ten further runs lie, after the durations of runs by chance: that of a logarithm whose mean and deviation
/// are only estimated (Student's distribution, the prediction of one more value). The usual run may be shorter than all of it: where many
/// Machines come up side by side, the slowest of them counts.
pub(super) fn range(usual_s: i64, by_chance: &[i64]) -> Duration {
    let Some(width) = width_in_deviations(by_chance.len()) else {
        return Duration { short_s: usual_s, usual_s, long_s: usual_s };
    };
    let count = by_chance.len() as f64;
    // A second more, since nothing may take no time at all.
    let logarithms: Vec<f64> =
        by_chance.iter().map(|took_s| (took_s.max(&0) + 1) as f64).map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    let half = width * (squares / (count - 1.0)).sqrt();
    let end = |logarithm: f64| (logarithm.exp() - 1.0).round().max(0.0) as i64;
    Duration { short_s: end(mean - half), usual_s, long_s: end(mean + half) }
}

/// Half of the width of that range in deviations of the runs; `None`: too few runs to know a deviation.
fn width_in_deviations(runs: usize) -> Option<f64> {
    // The 90th percentile of Student's distribution, by degrees of freedom.
    let percentile = match runs {
        0 | 1 => return None,
        2 => 3.078,
        3 => 1.886,
        4 => 1.638,
        5 => 1.533,
        6 => 1.476,
        7 => 1.440,
        8 => 1.415,
        _ => 1.397,
    };
    Some(percentile * (1.0 + 1.0 / runs as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_holds_eight_of_ten_further_runs() {
        let rng = Rng::seeded(4);
        let life = || (300.0 * (0.3 * normal(&rng)).exp()) as i64;
        for runs in [RUNS, RUNS_OF_LARGE] {
            let holds = |_| {
                let by_chance: Vec<i64> = (0..runs).map(|_| life()).collect();
                let Duration { short_s, long_s, .. } = range(by_chance[0], &by_chance);
                (short_s..=long_s).contains(&life())
            };
            let held = (0..4_000).filter(|at| holds(*at)).count();
            assert!((3_100..=3_300).contains(&held), "{held} of 4000 with {runs} runs");
        }
    }

    #[test]
    fn runs_that_do_not_differ_have_no_range() {
        assert_eq!(range(60, &[60; 9]), Duration { short_s: 60, usual_s: 60, long_s: 60 });
        assert_eq!(range(0, &[0; 4]), Duration { short_s: 0, usual_s: 0, long_s: 0 });
        assert_eq!(
            range(60, &[90]),
            Duration { short_s: 60, usual_s: 60, long_s: 60 },
            "a deviation takes two"
        );
        assert_eq!(range(60, &[]), Duration { short_s: 60, usual_s: 60, long_s: 60 });
    }

    #[test]
    fn a_range_does_not_begin_before_now() {
        let Duration { short_s, long_s, .. } = range(0, &[0, 0, 0, 200]);
        assert_eq!(short_s, 0);
        assert!(long_s > 0);
    }

    #[test]
    fn a_large_cluster_is_run_fewer_times() {
        assert_eq!((tempos(10).len(), tempos(100_000).len()), (RUNS, RUNS_OF_LARGE));
    }
}
