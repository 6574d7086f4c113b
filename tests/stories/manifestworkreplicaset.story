# One work on every cluster that a placement chooses: it spreads one cluster at a time, waits where it gets stuck, goes back,
# is paused, follows the placement, and goes with its set in either order.

file placement.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata:
      name: prod
      namespace: default
    spec:
      clusterSet: prod
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata:
      name: placement-prod
      namespace: default
    spec:
      clusterSets:
        - prod

file motd.yaml
    apiVersion: work.open-cluster-management.io/v1alpha1
    kind: ManifestWorkReplicaSet
    metadata:
      name: motd
      namespace: default
      labels:
        team: a
    spec:
      placementRefs:
        - name: placement-prod
          rolloutStrategy:
            type: Progressive
            progressive:
              maxConcurrency: 1
      manifestWorkTemplate:
        workload:
          manifests:
            - apiVersion: v1
              kind: ConfigMap
              metadata:
                name: motd
                namespace: default
              data:
                greeting: hello

# The next one needs a namespace that cluster2 does not have yet.
file motd-2.yaml
    apiVersion: work.open-cluster-management.io/v1alpha1
    kind: ManifestWorkReplicaSet
    metadata:
      name: motd
      namespace: default
      labels:
        team: a
    spec:
      placementRefs:
        - name: placement-prod
          rolloutStrategy:
            type: Progressive
            progressive:
              maxConcurrency: 1
      manifestWorkTemplate:
        workload:
          manifests:
            - apiVersion: v1
              kind: ConfigMap
              metadata:
                name: motd
                namespace: default
              data:
                greeting: good morning
            - apiVersion: v1
              kind: ConfigMap
              metadata:
                name: motd
                namespace: special
              data:
                greeting: good morning

file empty.yaml
    apiVersion: work.open-cluster-management.io/v1alpha1
    kind: ManifestWorkReplicaSet
    metadata:
      name: empty
      namespace: default
    spec:
      placementRefs:
        - name: placement-prod
      manifestWorkTemplate: {}

start up $ drover up --clusters 3

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set ONE=--kubeconfig=.drover/cluster1.kubeconfig

set TWO=--kubeconfig=.drover/cluster2.kubeconfig

set THREE=--kubeconfig=.drover/cluster3.kubeconfig

# What a work may not be, a template may not be either.
$ kubectl apply -f empty.yaml 2>&1
...manifests should not be empty
exit 1

# Without the placement there is nothing to do, and the set says so.
$ kubectl apply -f motd.yaml
manifestworkreplicaset.work.open-cluster-management.io/motd created

wait $ kubectl get mwrs motd
NAME   PLACEMENT                   FOUND   MANIFESTWORKS   APPLIED
motd   PlacementDecisionNotFound   False   NotAsExpected   False

$ drover why manifestworkreplicaset/motd
There is no placement placement-prod; its works are left as they are.

$ drover create clusterset prod
Clusterset prod is created

$ drover clusterset set prod --clusters cluster1,cluster2,cluster3
...

$ kubectl apply -f placement.yaml
...
placement.cluster.open-cluster-management.io/placement-prod created

wait $ kubectl get mwrs motd
NAME   PLACEMENT    FOUND   MANIFESTWORKS   APPLIED
motd   AsExpected   True    AsExpected      True

wait $ kubectl get mwrs motd -o jsonpath='{.status.summary}{"\n"}{.status.placementSummary[0].name} {.status.placementSummary[0].availableDecisionGroups}{"\n"}{range .status.conditions[*]}{.type} {.status} {.reason}{"\n"}{end}'
{"applied":3,"available":3,"degraded":0,"desiredTotal":3,"total":3,"updated":3}
placement-prod 1 (3 / 3 clusters applied)
PlacementVerified True AsExpected
ManifestworkApplied True AsExpected
PlacementRolledOut True Complete

$ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset=default.motd,team=a -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.labels.work\.open-cluster-management\.io/placementname}{"\n"}{end}'
cluster1 placement-prod
cluster2 placement-prod
cluster3 placement-prod

$ kubectl $THREE get configmap motd -o jsonpath='{.data.greeting}{"\n"}'
hello

# A change spreads one cluster at a time. On cluster2 it does not work, so that cluster3 is spared.
$ kubectl $ONE create namespace special
namespace/special created

$ kubectl $THREE create namespace special
namespace/special created

$ kubectl apply -f motd-2.yaml
manifestworkreplicaset.work.open-cluster-management.io/motd configured

wait $ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset=default.motd -o jsonpath='{range .items[*]}{.metadata.namespace} {.spec.workload.manifests[0].data.greeting}{"\n"}{end}'
cluster1 good morning
cluster2 good morning
cluster3 hello

wait $ drover why manifestworkreplicaset/motd
Placement placement-prod: 2 of 3 clusters have the template, 1 are done with it.
Cluster cluster2 has the change and is not done with it.
Cluster cluster3 waits: 1 clusters may be under way at once, and are.

wait $ kubectl get mwrs motd -o jsonpath='{.status.placementSummary[0].availableDecisionGroups} {.status.conditions[?(@.type=="PlacementRolledOut")].reason}{"\n"}'
1 (2 / 3 clusters applied) Progressing

# Back to how it was.
$ kubectl annotate mwrs motd work.open-cluster-management.io/roll-back=true
manifestworkreplicaset.work.open-cluster-management.io/motd annotated

wait $ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset=default.motd -o jsonpath='{range .items[*]}{.metadata.namespace} {.spec.workload.manifests[0].data.greeting}{"\n"}{end}'
cluster1 hello
cluster2 hello
cluster3 hello

wait $ kubectl get mwrs motd -o jsonpath='{range .status.conditions[?(@.type=="PlacementRolledOut")]}{.reason}: {.message}{"\n"}{end}'
Complete: rolled back to the template before, as work.open-cluster-management.io/roll-back says

$ drover why manifestworkreplicaset default/motd
Its works are as its template was before, because it has the annotation work.open-cluster-management.io/roll-back=true.

# And forward, now that cluster2 is ready for it; but not before somebody says so.
$ kubectl $TWO create namespace special
namespace/special created

$ kubectl annotate mwrs motd work.open-cluster-management.io/rollout-paused=true work.open-cluster-management.io/roll-back-
manifestworkreplicaset.work.open-cluster-management.io/motd annotated

wait $ kubectl get mwrs motd -o jsonpath='{range .status.conditions[?(@.type=="PlacementRolledOut")]}{.reason}: {.message}{"\n"}{end}'
Progressing: paused, as work.open-cluster-management.io/rollout-paused says

$ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset=default.motd -o jsonpath='{range .items[*]}{.metadata.namespace} {.spec.workload.manifests[0].data.greeting}{"\n"}{end}'
cluster1 hello
cluster2 hello
cluster3 hello

$ kubectl annotate mwrs motd work.open-cluster-management.io/rollout-paused-
manifestworkreplicaset.work.open-cluster-management.io/motd annotated

wait $ kubectl get mwrs motd -o jsonpath='{.status.placementSummary[0].availableDecisionGroups} {.status.conditions[?(@.type=="PlacementRolledOut")].reason}{"\n"}'
1 (3 / 3 clusters applied) Complete

$ drover why manifestworkreplicaset/motd
manifestworkreplicaset/motd waits for nothing.

# A cluster leaves the placement, and its work goes with what it brought.
$ drover clusterset set default --clusters cluster3
...

wait $ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset=default.motd -o jsonpath='{range .items[*]}{.metadata.namespace}{"\n"}{end}'
cluster1
cluster2

wait $ kubectl $THREE get configmap motd -o name --ignore-not-found

wait $ kubectl get mwrs motd -o jsonpath='{.status.summary.total} {.status.summary.available}{"\n"}'
2 2

# The set goes, and then the works.
$ kubectl delete mwrs motd
manifestworkreplicaset.work.open-cluster-management.io "motd" deleted...

wait $ kubectl get manifestwork,controllerrevision -A -o name

wait $ kubectl $ONE get configmap motd -o name --ignore-not-found

# With Foreground the works go first: they are gone when the set is.
file manifest.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: bye
      namespace: default

$ drover create work bye -f manifest.yaml --placement default/placement-prod --replicaset
create manifestworkreplicaset bye in namespace default

$ kubectl patch mwrs bye --type merge -p '{"spec":{"cascadeDeletionPolicy":"Foreground"}}'
manifestworkreplicaset.work.open-cluster-management.io/bye patched

wait $ kubectl get mwrs bye -o jsonpath='{.status.summary.available}{"\n"}'
2

$ kubectl delete mwrs bye
manifestworkreplicaset.work.open-cluster-management.io "bye" deleted...

$ kubectl get manifestwork -A -o name

$ kubectl $ONE get configmap bye -o name --ignore-not-found

stop up
