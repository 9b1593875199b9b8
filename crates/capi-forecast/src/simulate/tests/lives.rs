//! Whether eight of ten lives end within the range that was forecast, and how wide it is.

use serde_json::json;

use super::super::likely;
use super::super::outcome::Duration;
use super::super::timing::{Chance, Samples, normal};
use super::*;
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::rng::Rng;

/// Steps of a provider whose Machines differ as much as those of clouds do.
fn timing_of(samples: Samples, rng: &Rng) -> Timing {
    let span = |usual: u32| {
        let usual = usual + u32::try_from(rng.below(u64::from(usual))).unwrap_or(0);
        let (short, long) = match samples {
            Samples::None => (usual / 2, usual * 9 / 4),
            _ => (usual * 4 / 5, usual * 13 / 10),
        };
        Span::new(short, usual, long).of_samples(samples)
    };
    Timing {
        bootstrap: Span::exactly(2),
        infrastructure: span(90),
        node: span(90),
        drain: span(30),
        removal: span(60),
        update: span(60),
        cluster: Span::exactly(30),
    }
}

fn took_s(world: &World, timing: Timing, tempo: Tempo) -> (i64, u64) {
    let begun = again(world.clone());
    let at = begun.world.now;
    let mut timings = Timings::default();
    timings.kinds.insert("XMachine".to_owned(), timing);
    let chronicle = Chronicle::new(Detail::Counters, at);
    let mut course = Course::new(begun, Way { tempo, ..way() }, timings, chronicle);
    assert_eq!(course.go(), Ending::Settled);
    ((course.chronicle.acted_at - at).num_seconds(), course.runs)
}

/// One rollout as it was forecast, and as it then went.
struct Life {
    samples: Samples,
    range: Duration,
    took_s: i64,
}

fn life(number: u64) -> Life {
    let rng = Rng::seeded(number);
    let samples = [Samples::None, Samples::Of(4), Samples::Of(12), Samples::Of(40)];
    let samples = samples[usize::try_from(rng.below(4)).unwrap_or(0)];
    let timing = timing_of(samples, &rng);
    let mut world = grown(1, 2 + u32::try_from(rng.below(5)).unwrap_or(0));
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}});
    let patch = if rng.below(2) == 0 { patch } else { json!({"spec": {"replicas": 9}}) };
    world.merge::<MachineDeployment>("md", &patch);
    let (usual_s, runs) = took_s(&world, timing, Tempo::Usual);
    let by_chance: Vec<i64> =
        likely::tempos(runs).into_iter().map(|tempo| took_s(&world, timing, tempo).0).collect();
    let range = likely::range(usual_s, &by_chance);
    let truth = Chance { pace: normal(&rng), rng: rng.stream("truth") };
    Life { samples, range, took_s: took_s(&world, timing, Tempo::Likely(truth)).0 }
}

/// `CAPSTAN_FORECAST_LIVES=N` lives more of them than the suite has time for.
#[test]
fn eight_of_ten_lives_end_within_their_range() {
    let lives = std::env::var("CAPSTAN_FORECAST_LIVES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let lives: Vec<Life> = (0..lives).map(life).collect();
    let within = |life: &&Life| (life.range.short_s..=life.range.long_s).contains(&life.took_s);
    let right = lives.iter().filter(within).count();
    let learnt = lives.iter().filter(|life| matches!(life.samples, Samples::Of(10..)));
    let wide = learnt.clone().filter(|life| life.range.long_s > 2 * life.range.short_s).count();
    println!("{right} of {} lives within; {wide} of {} ranges wider than 1:2", lives.len(), learnt.count());
    // Three deviations of so many lives.
    let slack = 3.0 * (0.16 * lives.len() as f64).sqrt();
    let expected = 0.8 * lives.len() as f64;
    assert!(
        (right as f64 - expected).abs() <= slack + 0.05 * lives.len() as f64,
        "{right} of {}",
        lives.len()
    );
    assert_eq!(wide, 0, "after ten Machines a range is at most 1:2");
}
