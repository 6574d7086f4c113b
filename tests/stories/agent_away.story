# An agent is killed alone. While it is away one work is edited, one deleted and one added; started again it carries all
# of it out, and leaves alone what did not change.

file kept.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster3, name: kept}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: shared, namespace: default}, data: {color: red}}

file gone.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster3, name: gone}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: shared, namespace: default}, data: {color: red}}

file added.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster3, name: added}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: default}, data: {color: red}}

start up $ drover up --clusters 0

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover-cluster3/cluster3.kubeconfig

start third $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster3

wait $ kubectl get csr -l open-cluster-management.io/cluster-name=cluster3 --no-headers
cluster3-...   Pending

$ drover accept --clusters cluster3 --wait
...

wait $ kubectl get namespace cluster3 -o name
namespace/cluster3

$ kubectl apply -f kept.yaml -f gone.yaml
manifestwork.work.open-cluster-management.io/kept created
manifestwork.work.open-cluster-management.io/gone created

$ kubectl wait -n cluster3 manifestwork/kept manifestwork/gone --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/kept condition met
manifestwork.work.open-cluster-management.io/gone condition met

$ kubectl $CLUSTER create configmap mine
configmap/mine created

let UNTOUCHED $ kubectl $CLUSTER get configmap b -o jsonpath='{.metadata.uid}/{.metadata.resourceVersion}'

let CERTIFICATES $ kubectl get csr -o name

kill third

$ kubectl patch -n cluster3 manifestwork kept --type=json -p '[{"op":"replace","path":"/spec/workload/manifests/0/data/color","value":"blue"}]'
manifestwork.work.open-cluster-management.io/kept patched

$ kubectl delete -n cluster3 manifestwork gone --wait=false
manifestwork.work.open-cluster-management.io "gone" deleted...

$ kubectl apply -f added.yaml
manifestwork.work.open-cluster-management.io/added created

start again $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster3

wait $ kubectl get manifestworks -n cluster3 -o jsonpath='{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Applied")].status} {.status.conditions[?(@.type=="Applied")].observedGeneration}{"\n"}{end}'
added True 1
kept True 2

# What two works share stays with the one that is left.
$ kubectl $CLUSTER get configmaps -o jsonpath='{range .items[*]}{.metadata.name} {.data.color}{"\n"}{end}'
a blue
b red
d red
kube-root-ca.crt...
mine...
shared red

$ test "$UNTOUCHED" = "$(kubectl $CLUSTER get configmap b -o jsonpath='{.metadata.uid}/{.metadata.resourceVersion}')"

# It has found its certificate again, and asked for no other.
$ test "$CERTIFICATES" = "$(kubectl get csr -o name)"

wait $ drover why managedcluster/cluster3
managedcluster/cluster3 waits for nothing.

stop again

stop up
