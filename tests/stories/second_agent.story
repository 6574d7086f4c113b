# A second cluster comes and calls itself cluster1. It does not take over: cluster1 goes on working, the newcomer waits,
# and `why` says what for.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

let URL $ kubectl get managedcluster cluster1 -o jsonpath='{.spec.managedClusterClientConfigs[0].url}'

start second $ drover join --embedded --data-dir second --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster1

wait log second
...
awaiting acceptance: ...

wait $ kubectl get csr --no-headers -l open-cluster-management.io/cluster-name=cluster1
...
cluster1-...   Pending
...

let REQUEST $ kubectl get csr --no-headers -l open-cluster-management.io/cluster-name=cluster1 | awk '/Pending/ {print $1}'

$ drover why managedcluster/cluster1
CSR <csr> is of an agent that wants to be cluster cluster1, which has joined already, and waits for a hub administrator: ...

$ drover why csr/$REQUEST
CSR <csr> waits for a hub administrator to approve it: ...

# The cluster that was there first gets the works.
$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster1 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

$ kubectl --kubeconfig .drover/cluster1.kubeconfig get configmap a -o jsonpath='{.data.color}'
red

$ kubectl --kubeconfig second/cluster1.kubeconfig get configmap a 2>&1
Error from server (NotFound): configmaps "a" not found
exit 1

$ test "$URL" = "$(kubectl get managedcluster cluster1 -o jsonpath='{.spec.managedClusterClientConfigs[*].url}')"

$ kubectl get managedcluster cluster1 --no-headers
cluster1   true   https://<address>   True   True   <age>

stop second

stop up
