# One command starts a hub and two clusters that have joined it; SIGTERM stops them in order.

start up $ drover up 2>complaints

# It says what it did, how long that took, where the kubeconfigs are and what to try.
wait log up
hub ready   ...
...
ready in ...
...
Try:
  kubectl --kubeconfig .drover/hub.kubeconfig get managedclusters
...

set KUBECONFIG=.drover/hub.kubeconfig

# The table of the founding documents.
$ kubectl get managedclusters
NAME       HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
cluster1   true           https://<address>   True     True        <age>
cluster2   true           https://<address>   True     True        <age>

# It had nothing to complain about.
$ cat complaints

# OCM's own objects have OCM's names.
$ kubectl get csr -o jsonpath='{range .items[*]}{.spec.signerName} {.status.conditions[*].type}{"\n"}{end}'
kubernetes.io/kube-apiserver-client Approved
kubernetes.io/kube-apiserver-client Approved

$ kubectl get leases -A --field-selector metadata.name=managed-cluster-lease -o jsonpath='{range .items[*]}{.metadata.namespace}{"\n"}{end}'
cluster1
cluster2

$ kubectl get namespaces cluster1 cluster2
NAME       STATUS   AGE
cluster1   Active   <age>
cluster2   Active   <age>

$ kubectl get clusterroles open-cluster-management:managedcluster:cluster1 -o name
clusterrole.rbac.authorization.k8s.io/open-cluster-management:managedcluster:cluster1

$ kubectl get rolebindings -n cluster1 open-cluster-management:managedcluster:cluster1:work -o name
rolebinding.rbac.authorization.k8s.io/open-cluster-management:managedcluster:cluster1:work

# A second one in the same place is refused in one sentence.
$ drover up 2>&1
error: ...
exit 1

stop up

$ kubectl get managedclusters 2>&1
...
exit 1
