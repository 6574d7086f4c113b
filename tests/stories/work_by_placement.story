# A work goes where a placement says whenever the command is given: to the clusters that it has chosen since, and with --overwrite
# away from those that it has left.

file manifest.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: hello
      namespace: default

file gone.yaml
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: gone}
    spec: {hubAcceptsClient: true}

start up $ drover up --clusters 2

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set ONE=--kubeconfig=.drover/cluster1.kubeconfig

$ drover create clusterset prod --dry-run
Clusterset prod is created (dry run)

$ drover create clusterset prod && drover clusterset set prod --clusters cluster1 && drover clusterset bind prod -n default
Clusterset prod is created
Cluster cluster1 is set, from ClusterSet default to Clusterset prod
Clusterset prod is bound to Namespace default

$ drover create placement p --clustersets prod
Placement 'p' has been created in 'default' namespace

wait $ drover get placements
NAME   STATUS   REASON                  SELECTEDCLUSTERS   NAMESPACE
p      True     AllDecisionsScheduled   cluster1           default

$ drover create work hello -f manifest.yaml --placement default/p
create work hello in cluster cluster1

$ kubectl wait -n cluster1 manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

# What is printed for programs has one shape, however many there are.
$ drover get works -o yaml | grep -e ^kind
kind: List

$ drover get works hello --clusters cluster1 -o yaml | grep -e ^kind
kind: ManifestWork

$ drover get clusters -o tree
NAME       ACCEPTED   ...
cluster1   true       ...
cluster2   true       ...

# It chooses another cluster as well.
$ drover clusterset set prod --clusters cluster2
Cluster cluster2 is set, from ClusterSet default to Clusterset prod

wait $ drover get placements p -n default
NAME   STATUS   REASON                  SELECTEDCLUSTERS    NAMESPACE
p      True     AllDecisionsScheduled   cluster1,cluster2   default

$ drover create work hello -f manifest.yaml --placement default/p
work hello in cluster cluster1 already exists
create work hello in cluster cluster2

# And leaves the first.
$ drover clusterset set default --clusters cluster1
Cluster cluster1 is set, from ClusterSet prod to Clusterset default

wait $ drover get placements
NAME   STATUS   REASON                  SELECTEDCLUSTERS   NAMESPACE
p      True     AllDecisionsScheduled   cluster2           default

$ drover create work hello -f manifest.yaml --placement default/p
work hello in cluster cluster2 already exists

$ drover create work hello -f manifest.yaml --placement default/p --overwrite --dry-run
update work hello in cluster cluster2 (dry run)
delete work hello in cluster cluster1 (dry run)

$ drover create work hello -f manifest.yaml --placement default/p --overwrite
update work hello in cluster cluster2
delete work hello in cluster cluster1

wait $ kubectl get manifestworks -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}'
cluster2/hello

wait $ kubectl $ONE get configmap hello -o name --ignore-not-found

# Who named a cluster wanted it done there.
$ drover create work hello -f manifest.yaml --clusters cluster2 2>&1
error: work hello in cluster cluster2 already exists; add --overwrite to replace its manifests
exit 1

# A set of works follows another placement when it is told to.
$ drover create placement other --clustersets prod
Placement 'other' has been created in 'default' namespace

$ drover create work set -f manifest.yaml --placement default/p --replicaset
create manifestworkreplicaset set in namespace default

$ drover create work set -f manifest.yaml --placement default/other --replicaset --overwrite
update manifestworkreplicaset set in namespace default

$ kubectl get mwrs set -o jsonpath='{.spec.placementRefs[*].name}{"\n"}'
other

# A cluster that is gone lets go of nothing.
$ kubectl apply -f gone.yaml
managedcluster.cluster.open-cluster-management.io/gone created

wait $ kubectl get namespace gone -o name
namespace/gone

$ drover create work stuck -f manifest.yaml --clusters gone
create work stuck in cluster gone

$ kubectl patch manifestwork -n gone stuck --type=merge -p '{"metadata":{"finalizers":["cluster.open-cluster-management.io/manifest-work-cleanup"]}}'
manifestwork.work.open-cluster-management.io/stuck patched

$ drover delete work stuck --clusters gone --timeout 1 2>&1
error: work stuck in cluster gone is still being deleted after 1 s; `drover why manifestwork/gone/stuck` says what it waits for
exit 1

$ drover delete work stuck --clusters gone --force --timeout 1 2>&1
work stuck in cluster gone is deleted
cluster gone has not let go of work stuck: what it made stays there until its agent comes back and finds the work gone

$ drover delete work stuck --clusters gone --force
work stuck not found or is already deleted in cluster gone

# What is not there need not be taken away.
$ drover addon disable --names helloworld --clusters cluster1 2>&1
helloworld add-on not found in cluster: cluster1.
nothing was removed; `drover addon list` lists the add-ons and their clusters

stop up
