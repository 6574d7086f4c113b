# Editing a work changes the cluster, removing a manifest removes its object, deleting the work removes what it made and
# nothing else.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: default}, data: {color: red}}

file edited.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: blue}}

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl $CLUSTER create configmap mine
configmap/mine created

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

wait $ kubectl $CLUSTER get configmaps -o jsonpath='{range .items[*]}{.metadata.name} {.data.color}{"\n"}{end}'
a red
b red
...
mine...

$ kubectl apply -f edited.yaml
manifestwork.work.open-cluster-management.io/w configured

wait $ kubectl $CLUSTER get configmaps -o jsonpath='{range .items[*]}{.metadata.name} {.data.color}{"\n"}{end}'
a blue
kube-root-ca.crt...
mine...

$ kubectl delete manifestwork -n cluster1 w
manifestwork.work.open-cluster-management.io "w" deleted...

$ kubectl $CLUSTER get configmaps -o name
configmap/kube-root-ca.crt
configmap/mine

$ kubectl $CLUSTER get appliedmanifestworks 2>&1
No resources found

stop up
