# Clusters as the multicluster SIG sees them: a ClusterProfile in every namespace that has a set of the cluster bound to it.
# The hub shows them when its gate ClusterProfile is on.

file claim.yaml
    apiVersion: cluster.open-cluster-management.io/v1alpha1
    kind: ClusterClaim
    metadata: {name: region.open-cluster-management.io}
    spec: {value: eu}

start up $ drover up --feature-gates ClusterProfile=true

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl create namespace kueue
namespace/kueue created

$ drover create clusterset prod
Clusterset prod is created

$ drover clusterset set prod --clusters cluster1
Cluster cluster1 is set, from ClusterSet default to Clusterset prod

# One namespace may use one set, the other all clusters.
$ drover clusterset bind prod -n kueue
Clusterset prod is bound to Namespace kueue

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

wait $ kubectl get clusterprofiles -A -o name
clusterprofile.multicluster.x-k8s.io/cluster1
clusterprofile.multicluster.x-k8s.io/cluster2
clusterprofile.multicluster.x-k8s.io/cluster1

$ kubectl --kubeconfig .drover/cluster1.kubeconfig apply -f claim.yaml
clusterclaim.cluster.open-cluster-management.io/region.open-cluster-management.io created

wait $ kubectl get clusterprofile -n kueue cluster1 -o jsonpath='{.status.properties}'
[{"name":"region.open-cluster-management.io","value":"eu"}]

$ kubectl get clusterprofile -n kueue cluster1 -o jsonpath='{.metadata.labels}{"\n"}{.spec}{"\n"}{.status.version.kubernetes}{"\n"}{range .status.conditions[*]}{.type} {.status} {.reason}{"\n"}{end}'
{"multicluster.x-k8s.io/clusterset":"prod","open-cluster-management.io/cluster-name":"cluster1","x-k8s.io/cluster-manager":"open-cluster-management"}
{"clusterManager":{"name":"open-cluster-management"},"displayName":"cluster1"}
v1...
ControlPlaneHealthy True ManagedClusterAvailable
Joined True ManagedClusterJoined

# A profile that is deleted by mistake comes back; who manages it never changes.
$ kubectl delete clusterprofile -n kueue cluster1
clusterprofile.multicluster.x-k8s.io "cluster1" deleted...

wait $ kubectl get clusterprofile -n kueue cluster1 -o jsonpath='{.status.conditions[*].type}'
ControlPlaneHealthy Joined

$ kubectl patch clusterprofile -n kueue cluster1 --type=merge -p '{"spec":{"clusterManager":{"name":"other"}}}' 2>&1
The ClusterProfile "cluster1" is invalid: ...ClusterManager is immutable...
exit 1

# A cluster that changes its set changes its profiles at once.
$ drover clusterset set prod --clusters cluster2
Cluster cluster2 is set, from ClusterSet default to Clusterset prod

$ drover clusterset set default --clusters cluster1
Cluster cluster1 is set, from ClusterSet prod to Clusterset default

wait $ kubectl get clusterprofiles -A -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.name} {.metadata.labels.multicluster\.x-k8s\.io/clusterset}{"\n"}{end}'
default cluster1 default
default cluster2 prod
kueue cluster2 prod

# Nobody's set, nobody's profiles.
$ drover clusterset unbind prod -n kueue
Clusterset prod is unbind from namespace kueue

wait $ kubectl get clusterprofiles -n kueue 2>&1
No resources found in kueue namespace.

stop up
