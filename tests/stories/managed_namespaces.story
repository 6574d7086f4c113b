# A set may want namespaces on each of its clusters. The clusters are told, make them, and say so; what they made stays when
# it is no longer wanted, and says that.

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ drover create clusterset prod
Clusterset prod is created

$ drover clusterset set prod --clusters cluster1 --namespaces team-a,team-b
Cluster cluster1 is set, from ClusterSet default to Clusterset prod
Processing managed namespaces: [team-a team-b]
<blank>
Successfully updated Clusterset prod
Added 2 managed namespace(s): team-a, team-b
Total managed namespaces in clusterset: 2

wait $ kubectl get managedcluster cluster1 -o jsonpath='{range .status.managedNamespaces[*]}{.clusterSet} {.name} {range .conditions[*]}{.type} {.status} {.reason}{end}{"\n"}{end}'
prod team-a NamespaceAvailable True NamespaceApplied
prod team-b NamespaceAvailable True NamespaceApplied

$ kubectl $CLUSTER get namespace team-a team-b -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.labels}{"\n"}{end}'
team-a {"clusterset.open-cluster-management.io/<hub>":"true",...}
team-b {"clusterset.open-cluster-management.io/<hub>":"true",...}

# Another set wants one of them, too; the other cluster has none.
$ drover clusterset set global --namespaces team-b
Processing managed namespaces: [team-b]
<blank>
Successfully updated Clusterset global
Added 1 managed namespace(s): team-b
Total managed namespaces in clusterset: 1

wait $ kubectl get managedclusters -o jsonpath='{range .items[*]}{.metadata.name}{range .status.managedNamespaces[*]} {.clusterSet}/{.name}={.conditions[0].status}{end}{"\n"}{end}'
cluster1 global/team-b=True prod/team-a=True prod/team-b=True
cluster2 global/team-b=True

$ drover clusterset set prod --namespaces team-a
Processing managed namespaces: [team-a]
Managed namespace team-a already exists in Clusterset prod
<blank>
All specified namespaces already exist in Clusterset prod

$ drover clusterset set prod --namespaces Team 2>&1
Processing managed namespaces: [Team]
error: could not give namespaces to clusterset prod: ...
exit 1

$ drover get clustersets prod global
NAME     BOUND NAMESPACES   STATUS                       MANAGED NAMESPACES
global                      2 ManagedClusters selected   team-b
prod                        1 ManagedClusters selected   team-a,team-b

# The cluster leaves the set: what only that set wanted is let go of, and stays.
$ drover clusterset set default --clusters cluster1
Cluster cluster1 is set, from ClusterSet prod to Clusterset default

wait $ kubectl get managedcluster cluster1 -o jsonpath='{range .status.managedNamespaces[*]}{.clusterSet}/{.name}{"\n"}{end}'
global/team-b

wait $ kubectl $CLUSTER get namespace team-a team-b -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.labels}{"\n"}{end}'
team-a {"clusterset.open-cluster-management.io/<hub>":"false",...}
team-b {"clusterset.open-cluster-management.io/<hub>":"true",...}

stop up
