# Started again, everything is as it was: the same clusters, the same objects, nothing applied twice.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster1 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

let CLUSTERS $ kubectl get managedclusters -o jsonpath='{.items[*].metadata.uid}'

let MAP $ kubectl $CLUSTER get configmap a -o jsonpath='{.metadata.uid}/{.metadata.resourceVersion}'

stop up

start again $ drover up

wait log again
...
ready in ...
...

$ test "$CLUSTERS" = "$(kubectl get managedclusters -o jsonpath='{.items[*].metadata.uid}')"

$ kubectl wait managedclusters --all --for=condition=ManagedClusterConditionAvailable --timeout=30s
managedcluster.cluster.open-cluster-management.io/cluster1 condition met
managedcluster.cluster.open-cluster-management.io/cluster2 condition met

# A change comes through, and the object is the one it was before.
$ kubectl patch -n cluster1 manifestwork w --type=json -p '[{"op":"replace","path":"/spec/workload/manifests/0/data/color","value":"blue"}]'
manifestwork.work.open-cluster-management.io/w patched

wait $ kubectl $CLUSTER get configmap a -o jsonpath='{.data.color}'
blue

$ test "${MAP%/*}" = "$(kubectl $CLUSTER get configmap a -o jsonpath='{.metadata.uid}')"

stop again
