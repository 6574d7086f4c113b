# A canary first, then group by group; two placements that share a cluster; names with dots, and names that are too long.

file placements.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata:
      name: global
      namespace: default
    spec:
      clusterSet: global
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata:
      name: everywhere
      namespace: default
    spec:
      decisionStrategy:
        groupStrategy:
          decisionGroups:
            - groupName: canary
              groupClusterSelector:
                labelSelector:
                  matchLabels:
                    tier: canary
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata:
      name: canaries
      namespace: default
    spec:
      predicates:
        - requiredClusterSelector:
            labelSelector:
              matchLabels:
                tier: canary

file set.yaml
    apiVersion: work.open-cluster-management.io/v1alpha1
    kind: ManifestWorkReplicaSet
    metadata:
      name: web.shop.example
      namespace: default
    spec:
      placementRefs:
        - name: everywhere
          rolloutStrategy:
            type: Progressive
            progressive:
              mandatoryDecisionGroups:
                - groupName: canary
        - name: canaries
      manifestWorkTemplate:
        workload:
          manifests:
            - apiVersion: v1
              kind: ConfigMap
              metadata:
                name: web
                namespace: shop
              data:
                page: "1"

file long.yaml
    apiVersion: work.open-cluster-management.io/v1alpha1
    kind: ManifestWorkReplicaSet
    metadata:
      name: a-name-of-a-set-that-is-no-label-together-with-its-namespace
      namespace: default
    spec:
      placementRefs:
        - name: everywhere
      manifestWorkTemplate:
        workload:
          manifests:
            - apiVersion: v1
              kind: ConfigMap
              metadata:
                name: web
                namespace: default

start up $ drover up --clusters 3

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl label managedcluster cluster3 tier=canary
managedcluster.cluster.open-cluster-management.io/cluster3 labeled

$ kubectl apply -f placements.yaml
...
placement.cluster.open-cluster-management.io/canaries created

wait $ kubectl get placement everywhere -o jsonpath='{range .status.decisionGroups[*]}{.decisionGroupIndex} {.decisionGroupName} {.clusterCount}{"\n"}{end}'
0 canary 1
1  2

# The canary has no namespace for it, so that nobody else gets it.
$ kubectl apply -f set.yaml
manifestworkreplicaset.work.open-cluster-management.io/web.shop.example created

wait $ drover why manifestworkreplicaset/web.shop.example
Placement everywhere: 1 of 3 clusters have the template, 0 are done with it.
Placement canaries chooses no cluster that no other placement of it chooses.
Cluster cluster1 waits: decision group 0 comes first.
Cluster cluster2 waits: decision group 0 comes first.
Cluster cluster3 has the change and is not done with it.

$ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset=default.web.shop.example -o jsonpath='{range .items[*]}{.metadata.namespace}{"\n"}{end}'
cluster3

$ kubectl --kubeconfig .drover/cluster1.kubeconfig create namespace shop
namespace/shop created

$ kubectl --kubeconfig .drover/cluster2.kubeconfig create namespace shop
namespace/shop created

$ kubectl --kubeconfig .drover/cluster3.kubeconfig create namespace shop
namespace/shop created

# A cluster that both placements choose has one work, and is counted once.
wait $ kubectl get mwrs web.shop.example -o jsonpath='{range .status.placementSummary[*]}{.name} {.availableDecisionGroups}{"\n"}{end}{.status.summary.available} {.status.conditions[?(@.type=="PlacementRolledOut")].reason}{"\n"}'
everywhere 2 (3 / 3 clusters applied)
canaries 1 (0 / 0 clusters applied)
3 Complete

$ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.labels.work\.open-cluster-management\.io/placementname}{"\n"}{end}'
cluster1 everywhere
cluster2 everywhere
cluster3 everywhere

# The first placement is not asked any more: the cluster that the second one chooses keeps its work.
let KEPT $ kubectl get manifestwork -n cluster3 -o jsonpath='{.items[0].metadata.uid}'

$ kubectl patch mwrs web.shop.example --type merge -p '{"spec":{"placementRefs":[{"name":"canaries"}]}}'
manifestworkreplicaset.work.open-cluster-management.io/web.shop.example patched

wait $ kubectl get manifestwork -A -l work.open-cluster-management.io/manifestworkreplicaset -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.labels.work\.open-cluster-management\.io/placementname} {.metadata.uid}{"\n"}{end}' | sed "s/$KEPT/as before/"
cluster3 canaries as before

# A placement that is deleted takes nothing away.
$ kubectl delete placement canaries
placement.cluster.open-cluster-management.io "canaries" deleted...

wait $ kubectl get mwrs web.shop.example
NAME               PLACEMENT                   FOUND   MANIFESTWORKS   APPLIED
web.shop.example   PlacementDecisionNotFound   False   AsExpected      True

$ kubectl get manifestwork -n cluster3 -o jsonpath='{.items[*].metadata.uid}{"\n"}' | sed "s/$KEPT/as before/"
as before

# Works know their set by a label, which has its limits.
$ kubectl apply -f long.yaml
manifestworkreplicaset.work.open-cluster-management.io/a-name-of-a-set-that-is-no-label-together-with-its-namespace created

wait $ kubectl get mwrs a-name-of-a-set-that-is-no-label-together-with-its-namespace -o jsonpath='{range .status.conditions[*]}{.type} {.status} {.reason}: {.message}{"\n"}{end}'
ManifestworkApplied False InvalidManifestWorkName: ManifestWork owner reference "default.a-name-of-a-set-that-is-no-label-together-with-its-namespace" (namespace.name) is not a valid label value: must be no more than 63 characters; recreate the ManifestWorkReplicaSet with a shorter namespace and/or name so the combined length is at most 63 characters

stop up
