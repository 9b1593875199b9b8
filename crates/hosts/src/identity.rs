//! Is a machine one of its own? Kubernetes asks that machine id, product UUID and name of nodes differ (kubeadm's "before you
//! begin"); machines that were copied have them in common. Must not know how machines are named to people.

use super::facts::HostFacts;
use super::finding::{Fitness, HostFinding};

/// What two machines must not share: the name of the fact, and where it stands.
const FACTS: [(&str, fn(&HostFacts) -> Option<&str>); 3] = [
    ("machine-id", |facts| facts.machine_id.as_deref()),
    ("product-uuid", |facts| facts.product_uuid.as_deref()),
    ("hostname", |facts| facts.hostname.as_deref()),
];

/// For each machine what it has in common with others, by their names.
pub fn shared(machines: &[(&str, &HostFacts)]) -> Vec<Vec<HostFinding>> {
    let of = |at: usize, facts: &HostFacts| {
        let found = FACTS.iter().filter_map(|(what, value_of)| {
            let value = value_of(facts)?;
            let is_same =
                |other: &HostFacts| value_of(other).is_some_and(|it| it.eq_ignore_ascii_case(value));
            let others = machines.iter().enumerate().filter(|(i, (_, other))| *i != at && is_same(other));
            let names: Vec<&str> = others.map(|(_, (name, _))| *name).collect();
            (!names.is_empty()).then(|| finding(what, value, &names))
        });
        found.collect()
    };
    machines.iter().enumerate().map(|(at, (_, facts))| of(at, facts)).collect()
}

fn finding(what: &'static str, value: &str, names: &[&str]) -> HostFinding {
    let remedy = match what {
        "machine-id" => {
            "if they are copies: empty /etc/machine-id on one of them and start it again; if they are one machine, name it once"
        }
        "product-uuid" => "make the virtual machine anew instead of copying it, or name a machine once",
        _ => "give one of them another name: `hostnamectl set-hostname NAME`",
    };
    let evidence = format!("{value} is that of {} as well", names.join(", "));
    HostFinding { rule: what, remedy: remedy.to_owned(), ..HostFinding::new(Fitness::Unfit, evidence) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_name_each_other() {
        let machine = |id: &str, uuid: Option<&str>, name: &str| HostFacts {
            machine_id: Some(id.to_owned()),
            product_uuid: uuid.map(str::to_owned),
            hostname: Some(name.to_owned()),
            ..HostFacts::default()
        };
        let (a, b, c) = (machine("1", Some("U"), "a"), machine("1", Some("u"), "b"), machine("2", None, "c"));
        let found = shared(&[("h1", &a), ("h2", &b), ("h3", &c)]);
        let said = |at: usize| -> Vec<(&str, &str)> {
            found[at].iter().map(|finding| (finding.rule, finding.evidence.as_str())).collect()
        };
        assert_eq!(
            said(0),
            [("machine-id", "1 is that of h2 as well"), ("product-uuid", "U is that of h2 as well")]
        );
        assert_eq!(
            said(1),
            [("machine-id", "1 is that of h1 as well"), ("product-uuid", "u is that of h1 as well")]
        );
        assert!(found[2].is_empty());
    }
}
