# Sets of clusters: the two that are always there, one that clusters are put into, one that takes them by their labels, and
# who may choose from them.

file unreadable.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSet
    metadata:
      name: unreadable
    spec:
      clusterSelector:
        selectorType: LabelSelector
        labelSelector:
          matchExpressions:
            - {key: env, operator: In}

file later.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata:
      name: later
      namespace: default
    spec:
      clusterSet: later

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

# A cluster that names no set is in `default`; every cluster is in `global`.
wait $ drover get clustersets
NAME      BOUND NAMESPACES   STATUS                       MANAGED NAMESPACES
default                      2 ManagedClusters selected
global                       2 ManagedClusters selected

# They come back when they are deleted, and their selector when it is edited.
let UID $ kubectl get managedclusterset default -o jsonpath='{.metadata.uid}'

$ kubectl delete managedclusterset default
managedclusterset.cluster.open-cluster-management.io "default" deleted...

wait $ test "$UID" != "$(kubectl get managedclusterset default -o jsonpath='{.metadata.uid}')"

$ kubectl patch managedclusterset global --type=merge -p '{"metadata":{"labels":{"mine":"yes"}},"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"env":"prod"}}}}}'
managedclusterset.cluster.open-cluster-management.io/global patched

wait $ kubectl get managedclusterset global -o jsonpath='{.metadata.labels.mine} {.spec.clusterSelector}'
yes {"labelSelector":{},"selectorType":"LabelSelector"}

# A cluster is in one set by name.
$ drover create clusterset prod
Clusterset prod is created

$ drover create clusterset prod
Clusterset prod is already created

wait $ drover why managedclusterset prod
Clusterset prod has no clusters: `drover clusterset set prod --clusters CLUSTER,...` puts some into it.
Clusterset prod is bound to no namespace, so no placement can choose from it: `drover clusterset bind prod -n NAMESPACE` binds it.

$ drover clusterset set prod --clusters cluster1,cluster9 2>&1
error: there is no cluster cluster9 on this hub; `drover get clusters` lists those there are
exit 1

$ drover clusterset set nothing --clusters cluster1 2>&1
error: there is no clusterset nothing on this hub; `drover create clusterset nothing` creates it
exit 1

$ drover clusterset set prod --clusters cluster1
Cluster cluster1 is set, from ClusterSet default to Clusterset prod

$ drover clusterset set prod --clusters cluster1
Cluster cluster1 is already in Clusterset prod

# And in any number of sets by its labels.
$ drover create clusterset eu -l 'region in (eu,ch)'
Clusterset eu is created

$ drover clusterset set eu --clusters cluster2 2>&1
error: clusterset eu takes its clusters by their labels; label the clusters instead (`drover get clustersets eu -o wide` prints its selector)
exit 1

$ kubectl label managedcluster cluster1 cluster2 region=eu
managedcluster.cluster.open-cluster-management.io/cluster1 labeled
managedcluster.cluster.open-cluster-management.io/cluster2 labeled

wait $ drover get clustersets -o wide
NAME      BOUND NAMESPACES   STATUS                       MANAGED NAMESPACES   SELECTOR            AGE
default                      1 ManagedClusters selected                        <label>             <age>
eu                           2 ManagedClusters selected                        region in (eu,ch)   <age>
global                       2 ManagedClusters selected                        <all>               <age>
prod                         1 ManagedClusters selected                        <label>             <age>

$ kubectl get managedclustersets
NAME      EMPTY   AGE
default   False   <age>
eu        False   <age>
global    False   <age>
prod      False   <age>

$ drover get clusters --clusterset eu -o name
managedcluster.cluster.open-cluster-management.io/cluster1
managedcluster.cluster.open-cluster-management.io/cluster2

# A selector that makes no sense selects nothing, says so, and disturbs no other set.
$ kubectl apply -f unreadable.yaml
managedclusterset.cluster.open-cluster-management.io/unreadable created

wait $ kubectl get managedclusterset unreadable -o jsonpath='{range .status.conditions[*]}{.type} {.status} {.reason}: {.message}{"\n"}{end}'
ClusterSetEmpty True NoClusterMatched: No ManagedCluster selected: the selector cannot be read: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty

# A binding lets the placements of a namespace choose from a set; it may be there before the set.
$ drover clusterset bind prod -n nowhere 2>&1
error: there is no namespace nowhere on this hub; `kubectl create namespace nowhere` creates it
exit 1

$ drover clusterset bind later -n default 2>&1
error: there is no clusterset later on this hub; `drover create clusterset later` creates it
exit 1

$ kubectl apply -f later.yaml
managedclustersetbinding.cluster.open-cluster-management.io/later created

wait $ kubectl get managedclustersetbinding -n default later -o jsonpath='{range .status.conditions[*]}{.type} {.status} {.reason}{"\n"}{end}'
Bound False ClusterSetNotFound

$ drover why managedclustersetbinding default/later
There is no clusterset later on this hub: `drover create clusterset later` creates it.

$ drover create clusterset later
Clusterset later is created

wait $ kubectl get managedclustersetbinding -n default later -o jsonpath='{range .status.conditions[*]}{.type} {.status} {.reason}{"\n"}{end}'
Bound True ClusterSetBound

$ drover clusterset bind prod -n default
Clusterset prod is bound to Namespace default

$ drover clusterset bind prod -n default
Clusterset prod is already bound to Namespace default

wait $ drover why managedclustersetbinding default/prod
managedclustersetbinding/default/prod waits for nothing.

$ drover why managedclusterset/prod
managedclusterset/prod waits for nothing.

$ drover get clustersets prod -o yaml | grep -v -e uid -e Time
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata:
  generation: 1
  name: prod
  resourceVersion: "..."
spec:
  clusterSelector:
    selectorType: ExclusiveClusterSetLabel
status:
  conditions:
...

# What is used is not deleted by mistake; a deleted set leaves its clusters their label.
$ drover delete clusterset prod 2>&1
error: clusterset prod is still bound to the namespaces default; `drover clusterset unbind prod -n default` unbinds it
exit 1

$ drover clusterset unbind prod -n default
Clusterset prod is unbind from namespace default

$ drover clusterset unbind prod -n default
Clusterset prod is not bound to Namespace default

$ drover delete clusterset prod 2>&1
Clusterset prod is deleted
still labelled with it: cluster1; `drover clusterset set default --clusters cluster1` puts them into another set

$ drover delete clusterset prod
Clusterset prod not found or is already deleted

$ drover delete clusterset default 2>&1
error: clusterset default can not be deleted: the hub would make it anew
exit 1

stop up
