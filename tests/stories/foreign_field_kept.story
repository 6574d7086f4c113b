# What others add to an applied object and the work does not set is left alone, also when the work changes.

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

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

wait $ kubectl $CLUSTER get configmap a -o jsonpath='{.data}'
{"color":"red"}

$ kubectl $CLUSTER patch configmap a --type=merge -p '{"metadata":{"annotations":{"mine":"yes"}},"data":{"size":"big"}}'
configmap/a patched

$ kubectl patch -n cluster1 manifestwork w --type=json -p '[{"op":"replace","path":"/spec/workload/manifests/0/data/color","value":"blue"}]'
manifestwork.work.open-cluster-management.io/w patched

wait $ kubectl $CLUSTER get configmap a -o jsonpath='{.data} {.metadata.annotations.mine}'
{"color":"blue","size":"big"} yes

stop up
