# Killed in the middle of its work and started again, it loses nothing that was acknowledged and finishes by itself.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: default}, data: {color: red}}

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

kill up

start again $ drover up

wait log again
...
ready in ...
...

$ kubectl wait -n cluster1 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

$ kubectl $CLUSTER get configmaps -o name
configmap/a
configmap/b
configmap/kube-root-ca.crt

$ kubectl delete manifestwork -n cluster1 w --wait=false
manifestwork.work.open-cluster-management.io "w" deleted...

kill again

start third $ drover up

wait log third
...
ready in ...
...

# The deletion was acknowledged: it is carried out.
wait $ kubectl $CLUSTER get configmaps -o name
configmap/kube-root-ca.crt

wait $ kubectl get manifestworks -A 2>&1
No resources found

stop third
