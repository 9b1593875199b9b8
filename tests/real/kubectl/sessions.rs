//! What people type at kubectl and what it says, verb by verb, and the files they have at hand. Texts only;
//! `transcript` plays them.

pub const FLEET: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: blue, labels: {tier: gold}}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: blue}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: web, labels: {tier: gold}}
spec:
  clusterName: blue
  replicas: 2
  selector: {matchLabels: {role: web}}
  template:
    metadata: {labels: {role: web}}
    spec:
      clusterName: blue
      version: v1.33.0
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t1}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: app}
spec:
  clusterName: blue
  replicas: 1
  selector: {matchLabels: {role: app}}
  template:
    metadata: {labels: {role: app}}
    spec:
      clusterName: blue
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t1}
";

pub const LIST: &str = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: one}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {a: two}}
";

/// Of a kind that no server has.
pub const UNKNOWN: &str = r"
apiVersion: example.org/v1
kind: Foo
metadata: {name: foo}
";

/// kubectl takes a file that starts with a brace for JSON.
pub const MAP: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: map}
data: {one: first, two: second}
";

const GET: &str = r#"
$ create -f fleet.yaml
  cluster.cluster.x-k8s.io/blue created
  machinedeployment.cluster.x-k8s.io/web created
$ get md
  NAME
  app
  web
$ get md web -o wide
  PAUSED
  web
$ get machinedeployments.cluster.x-k8s.io web -o yaml
  kind: MachineDeployment
  name: web
$ get machinedeployment.v1beta2.cluster.x-k8s.io/web -o json
  "kind": "MachineDeployment"
$ get md -o name
  machinedeployment.cluster.x-k8s.io/app
  machinedeployment.cluster.x-k8s.io/web
$ get md -o 'jsonpath={.items[*].spec.replicas}'
  1 2
$ get md -o 'jsonpath-as-json={.items[*].metadata.name}'
  "app"
$ get md -o 'go-template={{range .items}}{{.metadata.name}}:{{.spec.replicas}} {{end}}'
  app:1 web:2
$ get md -o custom-columns=N:.metadata.name,R:.spec.replicas
  N     R
  app   1
  web   2
$ get md --sort-by=.spec.replicas --no-headers
  app
  web
$ get md --sort-by=.metadata.name -o name
  /app
  /web
$ get md -l tier=gold -o name
  /web
$ get md -l 'tier notin (gold)' -o name
  /app
$ get md --field-selector metadata.name=app -o name
  /app
! get md --field-selector spec.replicas=1
  field label not supported: spec.replicas
$ get md --show-labels -L tier
  TIER
  gold
  tier=gold
$ get md,clusters --show-kind
  machinedeployment.cluster.x-k8s.io/app
  cluster.cluster.x-k8s.io/blue
$ get md --chunk-size=1 -o name
  /app
  /web
$ get md web --subresource=status
  web
$ get md web --subresource=scale -o 'jsonpath={.kind} {.spec.replicas}'
  Scale 2
$ get md --ignore-not-found gone
! get md gone
  Error from server (NotFound): machinedeployments.cluster.x-k8s.io "gone" not found
$ get -f fleet.yaml -o name
  /blue
  /web
  /app
$ get --raw /apis/cluster.x-k8s.io/v1beta2/namespaces/get/machinedeployments/web
  "name":"web"
! get --raw /apis/cluster.x-k8s.io/v1beta2/namespaces/get/machinedeployments/gone
  NotFound
$ describe md web
  Name:         web
  Namespace:    get
  API Version:  cluster.x-k8s.io/v1beta2
  Replicas:      2
  Events:
$ describe clusters -l tier=gold
  Name:         blue
$ describe namespace get
  Status:       Active
$ get events
  No resources found
$ events --for machinedeployment/web
  No events found
"#;

const DISCOVERY: &str = r#"
$ version
  Server Version: v1.
$ api-versions
  cluster.x-k8s.io/v1beta2
  v1
$ api-resources --categories=cluster-api -o name
  clusters.cluster.x-k8s.io
  machinedeployments.cluster.x-k8s.io
$ api-resources --api-group=cluster.x-k8s.io --verbs=deletecollection -o wide
  machinedeployments    md
  create,delete,deletecollection,get,list,patch,update,watch
$ api-resources --namespaced=false
  namespaces
  customresourcedefinitions
$ explain md
  KIND:       MachineDeployment
$ explain clusters.spec.clusterNetwork.pods
  FIELD: pods
$ explain configmap.data
  FIELD: data
! explain md.spec.nothing
  field "nothing" does not exist
$ explain clusters --recursive
  clusterNetwork
$ auth can-i create md
  yes
$ auth can-i --list
  *.*
$ auth whoami
  kubernetes-admin
$ get --raw /version
  "gitVersion"
$ get --raw '/readyz?verbose'
  [+]
$ get --raw /openapi/v3
  apis/cluster.x-k8s.io/v1beta2
! get pods
  the server doesn't have a resource type "pods"
! logs pod
  the server doesn't have a resource type "pods"
! top nodes
  Metrics API not available
"#;

const APPLY: &str = r#"
$ apply -f fleet.yaml --dry-run=server
  web created (server dry run)
! get md web
  not found
$ apply -f fleet.yaml
  blue created
  web created
  app created
$ apply -f fleet.yaml
  blue unchanged
  web unchanged
  app unchanged
! diff -f fleet-3.yaml
  -  generation: 1
  +  generation: 2
  -  replicas: 2
  +  replicas: 3
$ get md web -o 'jsonpath={.spec.replicas}'
  2
$ apply -f fleet-3.yaml --dry-run=client
  web configured (dry run)
$ apply -f fleet-3.yaml
  blue unchanged
  web configured
  app unchanged
$ diff -f fleet-3.yaml
$ apply view-last-applied md/web
  replicas: 3
$ apply set-last-applied -f fleet.yaml
  web configured
$ KUBE_EDITOR='sed -i s/replicas:.2/replicas:\ 3/' apply edit-last-applied md/web
  web edited
$ apply view-last-applied md web
  replicas: 3
# OpenAPI's second version is read before these two.
$ apply -f list.yaml
  configmap/first created
  configmap/second created
$ apply -f list.yaml
  configmap/first unchanged
  configmap/second unchanged
! apply -f unknown.yaml
  no matches for kind "Foo" in version "example.org/v1"
$ apply -f map.yaml
  configmap/map created
! diff -f map-less.yaml
  -  one: first
$ apply -f map-less.yaml
  configmap/map configured
$ get cm map -o 'jsonpath={.data}'
  {"two":"second"}
$ label cm map tier=gold
$ apply -f fleet.yaml --prune -l tier=gold --prune-allowlist=core/v1/ConfigMap
  web configured
  configmap/map pruned
! apply -f typo.yaml
  unknown field "spec.clusterNetwrk"
$ apply -f typo.yaml --validate=warn
  unknown field "spec.clusterNetwrk"
"#;

const APPLY_SERVER_SIDE: &str = r#"
$ apply --server-side -f fleet.yaml --dry-run=server
  web serverside-applied (server dry run)
! get md web
  not found
$ apply --server-side -f fleet.yaml
  cluster.cluster.x-k8s.io/blue serverside-applied
  machinedeployment.cluster.x-k8s.io/web serverside-applied
$ apply --server-side -f fleet.yaml
$ get md web -o 'jsonpath={.metadata.generation} {.metadata.managedFields[*].manager}'
  1 kubectl
! diff --server-side -f fleet-3.yaml
  -  generation: 1
  -  replicas: 2
  +  replicas: 3
$ apply --server-side -f fleet-3.yaml
$ diff --server-side -f fleet-3.yaml
$ get md web -o 'jsonpath={.metadata.generation} {.spec.replicas}'
  2 3
# Somebody else writes, and force takes over.
$ patch md web --type=merge --field-manager=other -p '{"spec":{"replicas":5}}'
! apply --server-side -f fleet-3.yaml
  conflict with "other" using cluster.x-k8s.io/v1beta2
  .spec.replicas
$ get md web -o 'jsonpath={.spec.replicas}'
  5
$ apply --server-side --force-conflicts -f fleet-3.yaml
  web serverside-applied
$ get md web -o 'jsonpath={.spec.replicas}'
  3
# What one manager drops goes, unless another has it too.
$ apply --server-side --field-manager=labeller -f labels.yaml
$ get md web -o 'jsonpath={.metadata.labels.team} {.metadata.labels.tier}'
  blue gold
$ apply --server-side --field-manager=labeller -f labels-less.yaml
$ get md web -o 'jsonpath=[{.metadata.labels.team}] {.metadata.labels.tier} {.spec.replicas}'
  [] gold 3
# From client-side apply to this, without a conflict and without fields nobody can take away.
$ apply -f map.yaml
$ apply --server-side -f map.yaml
  configmap/map serverside-applied
$ apply --server-side -f map-less.yaml
$ get cm map -o 'jsonpath={.data}'
  {"two":"second"}
! apply --server-side -f typo.yaml
  .spec.clusterNetwrk: field not declared in schema
"#;

pub const LABELS: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: web, labels: {team: blue, tier: gold}}
";

const REPLACE: &str = r#"
! replace -f map.yaml
  not found
$ create -f map.yaml
! create -f map.yaml
  Error from server (AlreadyExists): error when creating "map.yaml": configmaps "map" already exists
$ replace -f map-less.yaml
  configmap/map replaced
$ get cm map -o 'jsonpath={.data}'
  {"two":"second"}
! replace -f stale.yaml
  Error from server (Conflict)
  the object has been modified; please apply your changes to the latest version and try again
$ replace --force -f fleet.yaml
  cluster.cluster.x-k8s.io/blue replaced
$ replace --force -f fleet.yaml
  "blue" deleted
  blue replaced
$ replace -f fleet-3.yaml
  web replaced
$ get md web -o 'jsonpath={.spec.replicas}'
  3
"#;

const PATCH: &str = r#"
$ create -f fleet.yaml
! patch md web -p '{"spec":{"replicas":5}}'
  application/strategic-merge-patch+json is not supported by cluster.x-k8s.io/v1beta2, Kind=MachineDeployment
$ patch md web --type=merge -p '{"spec":{"replicas":5}}'
  machinedeployment.cluster.x-k8s.io/web patched
$ patch md web --type=merge -p '{"spec":{"replicas":5}}'
  patched (no change)
$ patch md web --type=json -p '[{"op":"test","path":"/spec/replicas","value":5},{"op":"replace","path":"/spec/replicas","value":6}]'
  patched
! patch md web --type=json -p '[{"op":"test","path":"/spec/replicas","value":5}]'
  The request is invalid
! patch md web --type=merge -p '{"spec":{"replicas":"many"}}'
  The MachineDeployment "web" is invalid
  spec.replicas
! patch md web --type=merge -p '{'
  (BadRequest): error decoding patch
! patch md gone --type=merge -p '{}'
  machinedeployments.cluster.x-k8s.io "gone" not found
$ patch md web --type=merge --subresource=scale -p '{"spec":{"replicas":8}}'
  patched
$ patch md web --type=merge --subresource=status -p '{"spec":{"replicas":9},"status":{"replicas":4}}'
  patched
$ get md web -o 'jsonpath={.spec.replicas} {.status.replicas}'
  8 4
$ patch md web --type=merge -p '{"spec":{"replicas":9}}' --dry-run=server -o 'jsonpath={.spec.replicas}'
  9
$ get md web -o 'jsonpath={.spec.replicas}'
  8
$ patch -f fleet.yaml --type=merge -p '{"metadata":{"labels":{"q":"r"}}}'
  blue patched
  app patched
$ create configmap map --from-literal=one=first
$ patch cm map -p '{"data":{"two":"second"}}'
  configmap/map patched
$ patch cm map --type=merge -p '{"data":{"one":null}}'
$ patch cm map --type=json -p '[{"op":"add","path":"/data/three","value":"third"}]'
$ get cm map -o 'jsonpath={.data}'
  {"three":"third","two":"second"}
"#;

const EDIT: &str = r#"
$ create -f fleet.yaml -f map.yaml
$ EDITOR='sed -i s/replicas:.2/replicas:\ 7/' edit md web
  machinedeployment.cluster.x-k8s.io/web edited
$ EDITOR='true' edit md web
  Edit cancelled, no changes made.
! EDITOR='sed -i s/replicas:.7/replicas:\ many/' edit md web
  "web" is invalid
$ get md web -o 'jsonpath={.spec.replicas}'
  7
$ EDITOR='sed -i s/first/changed/' edit cm map -o json
  "one": "changed"
$ get cm map -o 'jsonpath={.data.one}'
  changed
$ patch md web --type=merge --subresource=status -p '{"status":{"replicas":4}}'
$ EDITOR='sed -i s/replicas:.4/replicas:\ 5/' edit md web --subresource=status
  web edited
$ get md web -o 'jsonpath={.status.replicas}'
  5
"#;

const LABEL: &str = r#"
$ create -f fleet.yaml
$ label md web a=b
  web labeled
! label md web a=c
  'a' already has a value (b), and --overwrite is false
$ label md web a=c --overwrite
  web labeled
$ label md web --list
  a=c
$ label md --all every=one
  app labeled
  web labeled
$ label md -l every=one a-
  web unlabeled
! label md web --overwrite 'a=not valid'
  invalid
$ annotate md web k=v
  web annotated
$ annotate md web --list
  k=v
$ annotate md web k-
  web annotated
$ get md web -o 'jsonpath={.metadata.annotations}{.metadata.generation}'
  1
"#;

const SCALE: &str = r#"
$ create -f fleet.yaml
$ scale md web --replicas=3
  machinedeployment.cluster.x-k8s.io/web scaled
! scale md/web --current-replicas=9 --replicas=1
  Expected replicas to be 9, was 3
$ scale md/web --current-replicas=3 --replicas=4 --dry-run=server
  web scaled (server dry run)
$ scale --all md --replicas=6
  app scaled
  web scaled
$ get md -o 'jsonpath={.items[*].spec.replicas}'
  6 6
! scale md web --replicas=-1
  --replicas
! scale cluster blue --replicas=2
  Error from server (NotFound)
! rollout status md/web
  no kind "MachineDeployment" is registered
"#;

const WAIT: &str = r#"
$ create -f fleet.yaml
$ wait md/web --for=jsonpath={.spec.replicas}=2 --timeout=20s
  web condition met
$ wait md --all --for=jsonpath={.spec.clusterName}=blue --timeout=20s
  app condition met
  web condition met
! wait md/web --for=condition=Never --timeout=0s
  condition not met for machinedeployments/web
$ wait md/gone --for=delete --timeout=20s
! wait md/gone --for=condition=Ready --timeout=20s
  not found
"#;

const DELETE: &str = r#"
$ create -f fleet.yaml -f map.yaml
$ create configmap other --from-literal=a=b
$ label cm other goes=first
$ delete md web --dry-run=server
  "web" deleted
  (server dry run)
$ get md web -o name
  /web
$ delete md web app --now
  "web" deleted
  "app" deleted
! delete md web
  not found
$ delete md web --ignore-not-found
$ delete cm -l goes=first
  "other" deleted
$ delete cm --field-selector metadata.name=map
  "map" deleted
$ create -f map.yaml
$ delete --raw /api/v1/namespaces/delete/configmaps/map
  "status":"Success"
$ create secret generic one --from-literal=a=b
$ delete secrets --all
  "one" deleted
$ delete -f fleet.yaml --ignore-not-found --wait=false
  "blue" deleted
$ apply -f fleet.yaml
$ delete -f fleet.yaml --timeout=20s
  "blue" deleted
$ delete namespace delete --timeout=20s
  "delete" deleted
! get namespace delete
  namespaces "delete" not found
"#;

pub const BUILT_IN_OBJECTS: &str = r"
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: l}
spec: {holderIdentity: me}
---
apiVersion: v1
kind: Node
metadata: {name: n-built-in}
---
apiVersion: v1
kind: Event
metadata: {name: e}
type: Normal
reason: Pulled
involvedObject: {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, namespace: built-in, name: m}
";

/// kubectl sends these as protobuf and strategic merge patches.
const BUILT_IN: &str = r#"
$ create secret generic s --from-literal=k=v
  secret/s created
$ get secret s -o 'jsonpath={.data.k} {.type}'
  dg== Opaque
$ create configmap m --from-literal=a=b --dry-run=server -o yaml
  a: b
$ create secret docker-registry hub --docker-server=h --docker-username=u --docker-password=p
$ get secret hub -o 'jsonpath={.type}'
  kubernetes.io/dockerconfigjson
$ create -f built-in.yaml
  lease.coordination.k8s.io/l created
  node/n-built-in created
  event/e created
$ get lease l
  HOLDER
  me
$ cordon n-built-in
  node/n-built-in cordoned
$ get node n-built-in
  SchedulingDisabled
$ uncordon n-built-in
$ taint node n-built-in key=value:NoSchedule
  node/n-built-in tainted
$ label node n-built-in node-role.kubernetes.io/worker=
$ get nodes
  worker
$ get node n-built-in -o 'jsonpath={.spec.taints}'
  [{"effect":"NoSchedule","key":"key","value":"value"}]
$ delete node n-built-in
$ get events
  Pulled
  machine/m
$ events
  Pulled
$ describe secret s
  k:  1 bytes
"#;

pub const SESSIONS: &[(&str, &str)] = &[
    ("get", GET),
    ("discovery", DISCOVERY),
    ("apply", APPLY),
    ("apply-server-side", APPLY_SERVER_SIDE),
    ("replace", REPLACE),
    ("patch", PATCH),
    ("edit", EDIT),
    ("label", LABEL),
    ("scale", SCALE),
    ("wait", WAIT),
    ("delete", DELETE),
    ("built-in", BUILT_IN),
];
