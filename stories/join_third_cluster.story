# A third cluster, an API of its own in a process of its own, asks to join; the hub's administrator accepts it.

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

start third $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster3

# It waits for both confirmations, and `why` says so.
wait $ kubectl get managedcluster cluster3
NAME       HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
cluster3   false          https://<address>                           <age>

wait $ kubectl get csr -l open-cluster-management.io/cluster-name=cluster3 --no-headers
cluster3-...   kubernetes.io/kube-apiserver-client   ...   Pending

$ drover why managedcluster/cluster3
...

$ drover accept --clusters cluster3 --wait
Starting approve csrs for the cluster cluster3
...

$ kubectl wait managedcluster/cluster3 --for=condition=ManagedClusterConditionAvailable --timeout=30s
managedcluster.cluster.open-cluster-management.io/cluster3 condition met

$ drover get clusters
NAME   ACCEPTED   AVAILABLE   ...
cluster1   true   True   ...
cluster2   true   True   ...
cluster3   true   True   ...

stop third

stop up
