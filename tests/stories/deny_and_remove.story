# A hub's administrator denies a cluster, accepts it again, and in the end deletes it.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {color: red}}

start up $ drover up --clusters 2

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"hubAcceptsClient":false}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

wait $ kubectl get managedcluster cluster1 -o jsonpath='{.status.conditions[?(@.type=="HubAcceptedManagedCluster")].status}/{.status.conditions[?(@.type=="HubAcceptedManagedCluster")].reason}'
False/HubClusterAdminDenied

# It may look at itself and do nothing more; the other cluster is as it was.
$ kubectl get rolebindings -n cluster1 -o name

$ kubectl auth can-i create csr --as=system:open-cluster-management:cluster1:agent1 --as-group=system:open-cluster-management:cluster1 2>/dev/null
no
exit 1

$ drover why managedcluster/cluster1
A hub administrator has denied cluster cluster1; `drover accept --clusters cluster1` accepts it again.

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

$ kubectl wait managedcluster/cluster2 --for=condition=ManagedClusterConditionAvailable --timeout=30s
managedcluster.cluster.open-cluster-management.io/cluster2 condition met

# Accepted again it goes on where it was.
$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"hubAcceptsClient":true}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

$ kubectl wait -n cluster1 manifestwork/w --for=condition=Available --timeout=30s
manifestwork.work.open-cluster-management.io/w condition met

wait $ drover why managedcluster/cluster1
managedcluster/cluster1 waits for nothing.

# Deleting one takes its permissions with it.
$ kubectl delete manifestwork -n cluster1 w
manifestwork.work.open-cluster-management.io "w" deleted...

$ kubectl $CLUSTER get configmaps -o name
configmap/kube-root-ca.crt

$ kubectl delete managedcluster cluster2
managedcluster.cluster.open-cluster-management.io "cluster2" deleted...

wait $ kubectl get clusterroles,clusterrolebindings,rolebindings -A -l open-cluster-management.io/cluster-name=cluster2 -o name

$ kubectl wait managedcluster/cluster1 --for=condition=ManagedClusterConditionAvailable --timeout=30s
managedcluster.cluster.open-cluster-management.io/cluster1 condition met

stop up
