# What a hand changes or deletes on the cluster is put back at once: the agent watches, it does not poll.

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

$ kubectl $CLUSTER patch configmap a --type=merge -p '{"data":{"color":"green"}}'
configmap/a patched

wait $ kubectl $CLUSTER get configmap a -o jsonpath='{.data}'
{"color":"red"}

$ kubectl $CLUSTER delete configmap a
configmap "a" deleted...

wait $ kubectl $CLUSTER get configmap a -o jsonpath='{.data}'
{"color":"red"}

stop up
