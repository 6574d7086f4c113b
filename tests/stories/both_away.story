# Hub and agent are killed, and the agent is started first. It goes on with what it joined with before and finds the hub
# as soon as that is back.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster3, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}

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

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster3 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

let UNTOUCHED $ kubectl $CLUSTER get configmap a -o jsonpath='{.metadata.uid}'

kill third

kill up

start again $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster3

wait log again
...
warning: could not make a token: ...; going on with what cluster3 joined with before
...

start hub $ drover up --clusters 0

wait log hub
...
ready in ...
...

$ kubectl patch -n cluster3 manifestwork w --type=json -p '[{"op":"replace","path":"/spec/workload/manifests/0/data/color","value":"blue"}]'
manifestwork.work.open-cluster-management.io/w patched

wait $ kubectl $CLUSTER get configmap a -o jsonpath='{.data.color}'
blue

$ test "$UNTOUCHED" = "$(kubectl $CLUSTER get configmap a -o jsonpath='{.metadata.uid}')"

wait $ drover why managedcluster/cluster3
managedcluster/cluster3 waits for nothing.

stop again

stop hub
