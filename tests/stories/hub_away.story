# The hub is killed while an agent in another process runs. Meanwhile the agent goes on repairing the cluster; when the
# hub is back the agent finds it by itself, and nothing is applied twice or deleted wrongly.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster3, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}, data: {color: red}}

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

$ kubectl wait managedcluster/cluster3 --for=condition=ManagedClusterConditionAvailable --timeout=30s
managedcluster.cluster.open-cluster-management.io/cluster3 condition met

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster3 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

let UNTOUCHED $ kubectl $CLUSTER get configmap c -o jsonpath='{.metadata.uid}/{.metadata.resourceVersion}'

kill up

# The cluster drifts while the hub is away, and is repaired without it.
$ kubectl $CLUSTER create configmap mine
configmap/mine created

$ kubectl $CLUSTER delete configmap a
configmap "a" deleted...

$ kubectl $CLUSTER patch configmap b --type=merge -p '{"data":{"color":"green"}}'
configmap/b patched

wait $ kubectl $CLUSTER get configmaps -o jsonpath='{range .items[*]}{.metadata.name} {.data.color}{"\n"}{end}'
a red
b red
c red
...
mine...

start again $ drover up --clusters 0

wait log again
...
ready in ...
...

# The agent comes back by itself: what is edited now arrives, and the status is told.
$ kubectl patch -n cluster3 manifestwork w --type=json -p '[{"op":"replace","path":"/spec/workload/manifests/0/data/color","value":"blue"},{"op":"remove","path":"/spec/workload/manifests/1"}]'
manifestwork.work.open-cluster-management.io/w patched

wait $ kubectl $CLUSTER get configmaps -o jsonpath='{range .items[*]}{.metadata.name} {.data.color}{"\n"}{end}'
a blue
c red
kube-root-ca.crt...
mine...

wait $ kubectl get -n cluster3 manifestwork w -o jsonpath='{.status.conditions[?(@.type=="Applied")].status} {.status.conditions[?(@.type=="Applied")].observedGeneration} {range .status.resourceStatus.manifests[*]}{.resourceMeta.name} {end}'
True 2 a c...

$ test "$UNTOUCHED" = "$(kubectl $CLUSTER get configmap c -o jsonpath='{.metadata.uid}/{.metadata.resourceVersion}')"

wait $ drover why managedcluster/cluster3
managedcluster/cluster3 waits for nothing.

stop third

stop again
