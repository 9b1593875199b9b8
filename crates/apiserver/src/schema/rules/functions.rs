//! The functions rules can call, as signatures: what each takes and gives. Knows no evaluation and no cost.
//!
//! Source: cel-go's standard library and extensions, apiserver `pkg/cel/library`, v0.36, as far as the
//! engine (crate kube-cel) has them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::kinds::Kind;

/// `receiver.name(arguments) result`. Words: types; `num` any number; `any` anything; `elem` the item of
/// the receiver; `self` the receiver; `first` the first argument; `inner` what the receiver's optional holds;
/// `some` an optional of the first argument. `...` takes any number of arguments.
const SIGNATURES: &[&str] = &[
    "size(any) int",
    "any.size() int",
    "type(any) type",
    "dyn(any) any",
    "bool(any) bool",
    "int(any) int",
    "uint(any) uint",
    "double(any) double",
    "string(any) string",
    "bytes(any) bytes",
    "timestamp(any) timestamp",
    "duration(any) duration",
    "matches(string,string) bool",
    "string.matches(string) bool",
    "string.contains(string) bool",
    "string.startsWith(string) bool",
    "string.endsWith(string) bool",
    "timestamp.getFullYear(...) int",
    "timestamp.getMonth(...) int",
    "timestamp.getDayOfYear(...) int",
    "timestamp.getDayOfMonth(...) int",
    "timestamp.getDate(...) int",
    "timestamp.getDayOfWeek(...) int",
    "timestamp.getHours(...) int",
    "timestamp.getMinutes(...) int",
    "timestamp.getSeconds(...) int",
    "timestamp.getMilliseconds(...) int",
    "duration.getHours() int",
    "duration.getMinutes() int",
    "duration.getSeconds() int",
    "duration.getMilliseconds() int",
    // Optionals.
    "optional.of(any) some",
    "optional.none() none",
    "optional.ofNonZeroValue(any) some",
    "optional.hasValue() bool",
    "optional.value() inner",
    "optional.or(optional) self",
    "optional.orValue(any) inner",
    // Strings.
    "string.charAt(int) string",
    "string.indexOf(string) int",
    "string.indexOf(string,int) int",
    "string.lastIndexOf(string) int",
    "string.lastIndexOf(string,int) int",
    "string.lowerAscii() string",
    "string.upperAscii() string",
    "string.replace(string,string) string",
    "string.replace(string,string,int) string",
    "string.split(string) list-of-string",
    "string.split(string,int) list-of-string",
    "string.substring(int) string",
    "string.substring(int,int) string",
    "string.trim() string",
    "string.reverse() string",
    "string.format(list) string",
    "list.join() string",
    "list.join(string) string",
    "strings.quote(string) string",
    "string.find(string) string",
    "string.findAll(string) list-of-string",
    "string.findAll(string,int) list-of-string",
    // Lists and sets.
    "list.isSorted() bool",
    "list.sum() elem",
    "list.min() elem",
    "list.max() elem",
    "list.indexOf(any) int",
    "list.lastIndexOf(any) int",
    "list.slice(int,int) self",
    "list.sort() self",
    "list.flatten() list",
    "list.flatten(int) list",
    "list.distinct() self",
    "list.first() opt-elem",
    "list.last() opt-elem",
    "list.reverse() self",
    "lists.range(int) list-of-int",
    "sets.contains(list,list) bool",
    "sets.equivalent(list,list) bool",
    "sets.intersects(list,list) bool",
    // Libraries of Kubernetes.
    "url(string) url",
    "isURL(string) bool",
    "url.getScheme() string",
    "url.getHost() string",
    "url.getHostname() string",
    "url.getPort() string",
    "url.getEscapedPath() string",
    "url.getQuery() map",
    "quantity(string) quantity",
    "isQuantity(string) bool",
    "quantity.isInteger() bool",
    "quantity.asInteger() int",
    "quantity.asApproximateFloat() double",
    "quantity.sign() int",
    "quantity.add(any) quantity",
    "quantity.sub(any) quantity",
    "quantity.isGreaterThan(quantity) bool",
    "quantity.isLessThan(quantity) bool",
    "quantity.compareTo(quantity) int",
    "semver(string) semver",
    "semver(string,bool) semver",
    "isSemver(string) bool",
    "isSemver(string,bool) bool",
    "semver.major() int",
    "semver.minor() int",
    "semver.patch() int",
    "semver.isGreaterThan(semver) bool",
    "semver.isLessThan(semver) bool",
    "semver.compareTo(semver) int",
    "ip(string) ip",
    "isIP(string) bool",
    "ip.isCanonical(string) bool",
    "ip.family() int",
    "ip.isUnspecified() bool",
    "ip.isLoopback() bool",
    "ip.isLinkLocalMulticast() bool",
    "ip.isLinkLocalUnicast() bool",
    "ip.isGlobalUnicast() bool",
    "cidr(string) cidr",
    "isCIDR(string) bool",
    "cidr.ip() ip",
    "cidr.masked() cidr",
    "cidr.prefixLength() int",
    "cidr.containsIP(any) bool",
    "cidr.containsCIDR(any) bool",
    "format.named(string) opt-format",
    "format.dns1123Label() format",
    "format.dns1123Subdomain() format",
    "format.dns1035Label() format",
    "format.qualifiedName() format",
    "format.dns1123LabelPrefix() format",
    "format.dns1123SubdomainPrefix() format",
    "format.dns1035LabelPrefix() format",
    "format.labelValue() format",
    "format.uri() format",
    "format.uuid() format",
    "format.byte() format",
    "format.date() format",
    "format.datetime() format",
    "format.validate(string) opt-list-of-string",
    "math.greatest(...) any",
    "math.least(...) any",
    "math.ceil(any) double",
    "math.floor(any) double",
    "math.round(any) double",
    "math.trunc(any) double",
    "math.abs(any) first",
    "math.sign(any) first",
    "math.isInf(any) bool",
    "math.isNaN(any) bool",
    "math.isFinite(any) bool",
    "math.bitAnd(any,any) first",
    "math.bitOr(any,any) first",
    "math.bitXor(any,any) first",
    "math.bitNot(any) first",
    "math.bitShiftLeft(any,int) first",
    "math.bitShiftRight(any,int) first",
    "math.sqrt(any) double",
    "base64.encode(bytes) string",
    "base64.decode(string) bytes",
    "jsonpatch.escapeKey(string) string",
];

/// Names before a dot that are not values.
const NAMESPACES: [&str; 9] =
    ["optional", "strings", "lists", "sets", "math", "base64", "jsonpatch", "format", "ip"];

struct Signature {
    /// Empty for plain functions and those of a namespace.
    receiver: &'static str,
    arguments: Vec<&'static str>,
    result: &'static str,
}

/// By name: `size`, `math.greatest`.
static TABLE: LazyLock<BTreeMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut table: BTreeMap<&'static str, Vec<Signature>> = BTreeMap::new();
    for text in SIGNATURES {
        let Some((head, rest)) = text.split_once('(') else { continue };
        let Some((arguments, result)) = rest.split_once(") ") else { continue };
        let arguments = arguments.split(',').filter(|word| !word.is_empty()).collect();
        let (receiver, name) = match head.split_once('.') {
            // A namespace's function takes all it needs as arguments; `format.validate` and the like are methods.
            Some((space, name)) if !is_qualified(space, name) => (space, name),
            _ => ("", head),
        };
        table.entry(name).or_default().push(Signature { receiver, arguments, result });
    }
    table
});

/// Is `space.name` a function of a namespace, rather than a method of a value that is called like it?
pub(super) fn is_qualified(space: &str, name: &str) -> bool {
    // A value may be called like a library: these are then methods of it.
    const METHODS: [&str; 12] = [
        "hasValue",
        "value",
        "or",
        "orValue",
        "validate",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "isCanonical",
    ];
    NAMESPACES.contains(&space) && (!METHODS.contains(&name) || (space, name) == ("ip", "isCanonical"))
}

pub(super) fn exists(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// The result of a call. `None`: no signature fits.
pub(super) fn result<'n>(
    name: &str,
    receiver: Option<&Kind<'n>>,
    arguments: &[Kind<'n>],
) -> Option<Kind<'n>> {
    let fits = |signature: &&Signature| {
        let receiver_fits = match receiver {
            None => signature.receiver.is_empty(),
            Some(kind) => !signature.receiver.is_empty() && accepts(signature.receiver, kind),
        };
        let many = signature.arguments.as_slice() == ["..."];
        let one_by_one = || {
            signature.arguments.len() == arguments.len()
                && signature.arguments.iter().zip(arguments).all(|(word, kind)| accepts(word, kind))
        };
        receiver_fits && (many || one_by_one())
    };
    let signature = TABLE.get(name)?.iter().find(fits)?;
    Some(kind_of_word(signature.result, receiver, arguments))
}

fn accepts(word: &str, kind: &Kind<'_>) -> bool {
    match (word, kind) {
        ("any", _) | (_, Kind::Dyn) => true,
        ("optional", Kind::Optional(_))
        | ("string", Kind::String)
        | ("bytes", Kind::Bytes)
        | ("int", Kind::Int)
        | ("bool", Kind::Bool)
        | ("double", Kind::Double)
        | ("timestamp", Kind::Timestamp)
        | ("duration", Kind::Duration)
        | ("list", Kind::List(_))
        | ("map", Kind::Map(..)) => true,
        (word, Kind::Library(name)) => word == *name,
        _ => false,
    }
}

fn kind_of_word<'n>(word: &'static str, receiver: Option<&Kind<'n>>, arguments: &[Kind<'n>]) -> Kind<'n> {
    let element = || match receiver {
        Some(Kind::List(of)) => (**of).clone(),
        _ => Kind::Dyn,
    };
    let optional = |of| Kind::Optional(Box::new(of));
    match word {
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "uint" => Kind::Uint,
        "double" => Kind::Double,
        "string" => Kind::String,
        "bytes" => Kind::Bytes,
        "timestamp" => Kind::Timestamp,
        "duration" => Kind::Duration,
        "type" => Kind::Type,
        "list" => Kind::List(Box::new(Kind::Dyn)),
        "list-of-string" => Kind::List(Box::new(Kind::String)),
        "list-of-int" => Kind::List(Box::new(Kind::Int)),
        "map" => Kind::Map(Box::new(Kind::String), Box::new(Kind::Dyn)),
        "elem" => element(),
        "opt-elem" => optional(element()),
        "opt-format" => optional(Kind::Library("format")),
        "opt-list-of-string" => optional(Kind::List(Box::new(Kind::String))),
        "self" => receiver.cloned().unwrap_or(Kind::Dyn),
        "first" => arguments.first().cloned().unwrap_or(Kind::Dyn),
        "some" => optional(arguments.first().cloned().unwrap_or(Kind::Dyn)),
        "none" => optional(Kind::Dyn),
        "inner" => match receiver {
            Some(Kind::Optional(of)) => (**of).clone(),
            _ => Kind::Dyn,
        },
        "url" | "quantity" | "semver" | "ip" | "cidr" | "format" => Kind::Library(word),
        _ => Kind::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        let read: usize = TABLE.values().map(Vec::len).sum();
        assert_eq!(read, SIGNATURES.len());
    }

    #[test]
    fn calls_find_their_result() {
        let list = Kind::List(Box::new(Kind::Int));
        for (name, receiver, arguments, result) in [
            ("size", None, vec![Kind::String], Some("int")),
            ("size", Some(&list), vec![], Some("int")),
            ("sum", Some(&list), vec![], Some("int")),
            ("contains", Some(&Kind::String), vec![Kind::String], Some("bool")),
            ("contains", Some(&Kind::Int), vec![Kind::String], None),
            ("math.greatest", None, vec![Kind::Int, Kind::Int], Some("dyn")),
            ("optional.of", None, vec![Kind::Int], Some("optional_type(int)")),
            ("nope", None, vec![], None),
        ] {
            let found = super::result(name, receiver, &arguments).map(|kind| kind.to_string());
            assert_eq!(found.as_deref(), result, "{name}");
        }
    }
}
