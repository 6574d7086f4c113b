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

# Who has not asked keeps no other out.
$ drover accept --clusters nobody,cluster3 2>&1
Starting approve csrs for the cluster nobody
Starting approve csrs for the cluster cluster3
...
Your managed cluster cluster3 has joined the Hub successfully.
error: no cluster named nobody has asked to join yet; add --wait to wait for it, `drover why managedcluster/nobody` says more
exit 1

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
