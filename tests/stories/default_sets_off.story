# A hub without the sets `default` and `global`: the gate DefaultClusterSet is off, and a cluster is in no set until it is put
# into one.

# A gate that nobody knows is a mistake in typing.
$ drover up --feature-gates DefaultClusterSets=false 2>&1
error: invalid value 'DefaultClusterSets=false' for '--feature-gates <NAME=BOOL>': unrecognized feature gate: DefaultClusterSets; there are AddonManagement, ...
...
exit 2

start up $ drover up --clusters 1 --feature-gates DefaultClusterSet=false

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ drover get clustersets 2>&1
no cluster sets found

$ drover get clusters
NAME       ACCEPTED   AVAILABLE   CLUSTERSET   CPU     MEMORY   KUBERNETES VERSION
cluster1   true       True                     <cpu>   <size>   v1...

$ drover create clusterset prod
Clusterset prod is created

$ drover clusterset set prod --clusters cluster1
Cluster cluster1 is set to Clusterset prod

wait $ drover get clustersets
NAME   BOUND NAMESPACES   STATUS                       MANAGED NAMESPACES
prod                      1 ManagedClusters selected

$ kubectl label managedcluster cluster1 cluster.open-cluster-management.io/clusterset-
managedcluster.cluster.open-cluster-management.io/cluster1 unlabeled

wait $ drover why managedclusterset/prod
Clusterset prod has no clusters: `drover clusterset set prod --clusters CLUSTER,...` puts some into it.
Clusterset prod is bound to no namespace, so no placement can choose from it: `drover clusterset bind prod -n NAMESPACE` binds it.

stop up
