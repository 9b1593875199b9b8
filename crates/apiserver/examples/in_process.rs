//! A Kubernetes API in a test process: a definition, an object, a refusal, a conflict and a watch, through a kube client.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;
use std::sync::Arc;

use capstan_apiserver::{AdmitAll, ApiServer, Clock, MemoryStore, Options, Rng, Tokens};
use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.io", version = "v1", kind = "Lamp", namespaced)]
struct LampSpec {
    #[schemars(range(min = 0, max = 100))]
    brightness_percent: i32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", session().await?);
    Ok(())
}

async fn session() -> Result<String, Box<dyn Error>> {
    let options = Options {
        clock: Clock::system(),
        rng: Rng::seeded(1),
        definitions: vec![Lamp::crd()],
        tokens: Tokens::random(),
        admission: Arc::new(AdmitAll),
    };
    let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await?;
    let lamps: Api<Lamp> = Api::default_namespaced(kube::Client::new(server, "default"));

    let desk =
        lamps.create(&PostParams::default(), &Lamp::new("desk", LampSpec { brightness_percent: 40 })).await?;
    let mut lines =
        vec![format!("created {}, generation {}", desk.name_any(), desk.metadata.generation.unwrap_or(0))];

    let glare = Lamp::new("glare", LampSpec { brightness_percent: 900 });
    lines.push(format!("refused: {}", refusal(lamps.create(&PostParams::default(), &glare).await)));

    let brighter = Patch::Merge(json!({ "spec": { "brightness_percent": 80 } }));
    lamps.patch("desk", &PatchParams::default(), &brighter).await?;
    lines.push(format!("refused: {}", refusal(lamps.replace("desk", &PostParams::default(), &desk).await)));

    let since = desk.resource_version().ok_or("every stored object has a resource version")?;
    let mut events = lamps.watch(&WatchParams::default(), &since).await?.boxed();
    if let Some(WatchEvent::Modified(lamp)) = events.next().await.transpose()? {
        lines.push(format!("watched: {} at {} %", lamp.name_any(), lamp.spec.brightness_percent));
    }
    Ok(lines.join("\n") + "\n")
}

fn refusal(result: kube::Result<Lamp>) -> String {
    match result {
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        other => format!("not an answer of the server: {other:?}"),
    }
}

#[cfg(test)]
#[tokio::test]
async fn it_prints_what_the_readme_shows() {
    let printed = session().await.expect("a session");
    assert!(include_str!("../README.md").contains(&printed), "README.md does not show:\n{printed}");
}
