//! The pairs of a damaged leaf. Where offsets are altered too, they are looked for: from the end of
//! one pair that holds to the end of the next. Must not know what makes a pair hold; it is asked.

use super::node::{Node, Pair};
use super::tree::IsIntact;

/// Longest stretch in which the end of a value is looked for.
const SEARCHED_BYTES_MAX: usize = 64 << 10;

/// True when every pair holds and they lie one behind the other in key order.
pub(super) fn is_consistent(node: Node<'_>, is_intact: IsIntact) -> bool {
    let mut last_key: Option<&[u8]> = None;
    let all_hold = (0..node.count).all(|n| {
        let Some(pair) = node.pair(n) else { return false };
        let key = node.key(&pair);
        let is_next = last_key.replace(key).is_none_or(|last| last < key);
        is_next && is_intact(key, node.value(&pair))
    });
    node.is_leaf() && node.count > 0 && all_hold
}

/// The pairs that hold where the offsets say they are.
pub(super) fn pairs_that_hold(node: Node<'_>, is_intact: IsIntact) -> Vec<Pair> {
    (0..node.count).filter_map(|n| holds(node, n, is_intact)).collect()
}

/// The pairs as far as they can be told, each with whether it holds.
pub(super) fn pairs_of_damaged(node: Node<'_>, is_intact: IsIntact) -> Vec<(Pair, bool)> {
    let holding = |node: Node<'_>| (0..node.count).filter(|n| holds(node, *n, is_intact).is_some()).count();
    let mut node = node;
    if holding(node) == 0 {
        let counts = (1..=node.count_max()).map(|count| Node { count, ..node });
        let possible = counts.filter(|node| node.is_possible(false)).map(|node| (holding(node), node));
        let Some((1.., best)) = possible.max_by_key(|(holding, _)| *holding) else { return Vec::new() };
        node = best;
    }
    let mut found: Vec<Option<Pair>> = (0..node.count).map(|n| holds(node, n, is_intact)).collect();
    for n in 0..node.count {
        if found[n].is_none() {
            found[n] = search(node, n, &found, is_intact);
        }
    }
    let told = found.into_iter().enumerate().map(|(n, pair)| match pair {
        Some(pair) => Some((pair, true)),
        None => node.pair(n).map(|pair| (pair, false)),
    });
    told.flatten().collect()
}

fn holds(node: Node<'_>, n: usize, is_intact: IsIntact) -> Option<Pair> {
    node.pair(n).filter(|pair| is_intact(node.key(pair), node.value(pair)))
}

/// The pair behind one that holds, with either end wherever it holds.
fn search(node: Node<'_>, n: usize, found: &[Option<Pair>], is_intact: IsIntact) -> Option<Pair> {
    let (key_start, value_start) = match n.checked_sub(1) {
        Some(before) => found[before].as_ref().map(|pair| (pair.key.end, pair.value.end))?,
        None => (node.keys_start(), found.last()?.as_ref().map_or(node.values_start()?, |last| last.key.end)),
    };
    let next = found[n..].iter().flatten().next();
    let keys_end = next.map_or(node.values_start()?, |next| next.key.start);
    let values_end = next.map_or(node.bytes.len(), |next| next.value.start);
    let pair = |key_end, value_end| Pair { key: key_start..key_end, value: value_start..value_end };
    let holds = |pair: &Pair| {
        let parts = (node.bytes.get(pair.key.clone()), node.bytes.get(pair.value.clone()));
        matches!(parts, (Some(key), Some(value)) if !key.is_empty() && is_intact(key, value))
    };
    let (told_key, told_value) = (node.key_end(n)?, node.value_end(n)?);
    let to = |start: usize, end: usize| start..=end.min(start + SEARCHED_BYTES_MAX);
    to(key_start, keys_end)
        .map(|end| pair(end, told_value))
        .find(holds)
        .or_else(|| to(value_start, values_end).map(|end| pair(told_key, end)).find(holds))
        .or_else(|| holds(&pair(keys_end, values_end)).then(|| pair(keys_end, values_end)))
}
