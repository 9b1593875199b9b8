//! How long the stages of a simulated machine take, and what they are called. Owns durations and their jitter; must not know
//! what coming up means.
//! Source: in-memory backend of DevMachine, v1.14.2. Difference: upstream draws the jitter again in
//! every reconcile; here it is drawn once per machine and stage, so that a run can be repeated.

use std::time::Duration;

use capi_types::dev::{InMemoryComponent, InMemoryMachine};
use capstan_base::go_duration::GoDuration;
use capstan_base::rng::Rng;
use capstan_physics::boot::{BootStage, Delays};

/// As in the hold annotation and in condition types (`VMProvisioned`).
pub fn name(stage: BootStage) -> &'static str {
    match stage {
        BootStage::Bootstrap => "BootstrapData",
        BootStage::Host => "VM",
        BootStage::Node => "Node",
        BootStage::Etcd => "Etcd",
        BootStage::ApiServer => "APIServer",
    }
}

/// `startupDuration × (1 + u × startupJitter) / time_scale`, with `u` from the machine's own stream.
pub fn delays(spec: &InMemoryMachine, uid: &str, rng: &Rng, time_scale: f64) -> Delays {
    Delays::new(|stage| {
        let (base, jitter) = settings(component(spec, stage));
        let u = rng.stream(&format!("{uid}/{}", name(stage))).unit();
        let seconds = base.as_secs_f64() * (1.0 + u * jitter) / time_scale;
        // A jitter out of the object may make it negative or endless, which is no Duration.
        Duration::try_from_secs_f64(seconds).unwrap_or(base)
    })
}

fn component(spec: &InMemoryMachine, stage: BootStage) -> Option<&InMemoryComponent> {
    match stage {
        // The infrastructure is asked only after it is there.
        BootStage::Bootstrap => None,
        BootStage::Host => spec.vm.as_ref(),
        BootStage::Node => spec.node.as_ref(),
        BootStage::Etcd => spec.etcd.as_ref(),
        BootStage::ApiServer => spec.api_server.as_ref(),
    }
}

/// Startup duration and jitter; nothing stated means at once and none.
fn settings(component: Option<&InMemoryComponent>) -> (Duration, f64) {
    let Some(provisioning) = component.and_then(|c| c.provisioning.as_ref()) else {
        return (Duration::ZERO, 0.0);
    };
    let jitter = provisioning.startup_jitter.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let duration = GoDuration::parse(&provisioning.startup_duration).and_then(GoDuration::to_std);
    // `f64::max` drops a NaN too, which the text of a jitter may say.
    (duration.unwrap_or_default(), f64::max(jitter, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::dev::Provisioning;

    fn part(duration: &str, jitter: Option<&str>) -> Option<InMemoryComponent> {
        let startup_jitter = jitter.map(str::to_owned);
        Some(InMemoryComponent {
            provisioning: Some(Provisioning { startup_duration: duration.to_owned(), startup_jitter }),
        })
    }

    #[test]
    fn delays_repeat_per_uid_and_stay_in_range() {
        let spec =
            InMemoryMachine { vm: part("10s", Some("0.2")), node: part("2s", None), ..Default::default() };
        let rng = Rng::seeded(3);
        let one = delays(&spec, "u1", &rng, 1.0);
        assert_eq!(one, delays(&spec, "u1", &rng, 1.0));
        assert_ne!(one, delays(&spec, "u2", &rng, 1.0));
        assert!((10.0..12.0).contains(&one.of(BootStage::Host).as_secs_f64()));
        assert_eq!(one.of(BootStage::Node), Duration::from_secs(2));
        assert_eq!(one.of(BootStage::Etcd), Duration::ZERO);
        assert_eq!(delays(&spec, "u1", &rng, 4.0).of(BootStage::Node), Duration::from_millis(500));
    }
}
