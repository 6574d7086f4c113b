# A third cluster joins, and the hub's administrator lets it in with nothing but kubectl, as the founding documents type it.

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

start third $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster3

wait $ kubectl get managedcluster cluster3
NAME       HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
cluster3   false          https://<address>                           <age>

wait $ kubectl get csr -l open-cluster-management.io/cluster-name=cluster3 --no-headers
cluster3-...   kubernetes.io/kube-apiserver-client   ...   Pending

# The two confirmations.
$ kubectl patch managedcluster cluster3 -p='{"spec":{"hubAcceptsClient":true}}' --type=merge
managedcluster.cluster.open-cluster-management.io/cluster3 patched

$ kubectl get csr -l open-cluster-management.io/cluster-name=cluster3 | grep Pending | awk '{print $1}' | xargs kubectl certificate approve
certificatesigningrequest.certificates.k8s.io/cluster3-... approved

$ kubectl wait managedcluster/cluster3 --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/cluster3 condition met

$ kubectl get managedcluster cluster3
NAME       HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
cluster3   true           https://<address>      True     True        <age>

$ kubectl get csr -l open-cluster-management.io/cluster-name=cluster3 --no-headers
cluster3-...   kubernetes.io/kube-apiserver-client   ...   Approved,Issued

stop third

stop up
