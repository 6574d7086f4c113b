# `up` started again respects what the administrator has done meanwhile: a denied cluster stays out and holds nothing up,
# and a deleted one joins anew.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster2, name: w}
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

set CLUSTER=--kubeconfig=.drover/cluster2.kubeconfig

$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"hubAcceptsClient":false}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

# Deleting a cluster takes its works along and all its rights; its agent removes by itself what they made.
$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster2 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

$ kubectl delete managedcluster cluster2
managedcluster.cluster.open-cluster-management.io "cluster2" deleted...

$ kubectl get manifestworks -A 2>&1
No resources found

wait $ kubectl $CLUSTER get configmaps -o name
configmap/kube-root-ca.crt

stop up

start again $ drover up

wait log again
...
cluster1 denied   ...
...
ready in ...
...

$ kubectl get managedclusters cluster1 cluster2 -o jsonpath='{range .items[*]}{.metadata.name} {.spec.hubAcceptsClient} {.status.conditions[?(@.type=="HubAcceptedManagedCluster")].status}{"\n"}{end}'
cluster1 false False
cluster2 true True

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait -n cluster2 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

stop again
