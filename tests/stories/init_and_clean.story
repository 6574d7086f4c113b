# Embedded only: pods are processes of this machine.
#
# A hub and an agent put on clusters and taken off again, as clusteradm users do: init, join, accept, unjoin, clean. The two
# APIs know nothing of Open Cluster Management before and after.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}

file add-on.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: helloworld}
    spec: {addOnMeta: {displayName: helloworld}}

let DROVER $ command -v drover

let PORT $ shuf -i 20000-29999 -n 1

let HEALTH $ shuf -i 30000-32000 -n 1

let AGENT $ shuf -i 17000-19999 -n 1

$ printf 'log: debug\nwebhooks: {port: %s}\nhealth: {port: %s}\n' $PORT $HEALTH > values.yaml && echo "health: {port: $AGENT}" > agent.yaml

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig --node-image-map "drover=$DROVER *"

wait log one
kube ready ...
...
Try:
...

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig --node-image-map "drover=$DROVER *"

wait log two
kube ready ...
...
Try:
...

# There is nothing to see and nothing to take away yet.
$ drover --kubeconfig hub.kubeconfig get hub-info
Registration Operator:	<none>
Components:	<uninstalled>

$ drover --kubeconfig edge.kubeconfig get klusterlet-info 2>&1
...No klusterlet detected! Please make sure you're using the correct context!...
exit 1

$ drover --kubeconfig hub.kubeconfig clean
The multicluster hub control plane is cleaned up already

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge 2>&1
...there is no agent to remove...
exit 1

# What upstream has put there is not ours to take away.
$ kubectl --kubeconfig hub.kubeconfig create namespace open-cluster-management
namespace/open-cluster-management created

$ kubectl --kubeconfig hub.kubeconfig create deployment -n open-cluster-management cluster-manager --image=none --replicas=0
deployment.apps/cluster-manager created

$ drover --kubeconfig hub.kubeconfig clean 2>&1
error: Deployment open-cluster-management/cluster-manager runs a hub of upstream's there, and none of ours: `clusteradm clean` removes it
exit 1

$ kubectl --kubeconfig hub.kubeconfig delete namespace open-cluster-management
namespace "open-cluster-management" deleted

$ kubectl --kubeconfig hub.kubeconfig create namespace open-cluster-management
namespace/open-cluster-management created

$ drover --kubeconfig hub.kubeconfig clean
The multicluster hub control plane is cleaned up already

$ kubectl --kubeconfig hub.kubeconfig delete namespace open-cluster-management
namespace "open-cluster-management" deleted

# A dry run tells everything and writes nothing.
$ drover --kubeconfig hub.kubeconfig init --dry-run --values values.yaml
customresourcedefinition.apiextensions.k8s.io/... created (dry run)
...
namespace/open-cluster-management-hub created (dry run)
...
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:bootstrap:agent-registration created (dry run)
...
configmap/cluster-info created (dry run)
role.rbac.authorization.k8s.io/open-cluster-management:cluster-info created (dry run)
rolebinding.rbac.authorization.k8s.io/open-cluster-management:cluster-info created (dry run)
...
deployment.apps/drover-hub created (dry run)

$ drover --kubeconfig hub.kubeconfig init --dry-run --values values.yaml -o json
[
  "customresourcedefinition.apiextensions.k8s.io/... created (dry run)",
...
  "deployment.apps/drover-hub created (dry run)"
]

$ kubectl --kubeconfig hub.kubeconfig get namespace open-cluster-management-hub 2>&1
Error from server (NotFound): namespaces "open-cluster-management-hub" not found
exit 1

# A mistake in the values is told before anything is written.
$ drover --kubeconfig hub.kubeconfig init --feature-gates Nothing=true 2>&1
...unrecognized feature gate: Nothing...
...
exit 2

$ drover --kubeconfig hub.kubeconfig init --wait --values values.yaml --output-join-command-file join.sh
customresourcedefinition.apiextensions.k8s.io/... created
...
namespace/open-cluster-management-hub created
...
configmap/cluster-info created
...
deployment.apps/drover-hub created
...
The multicluster hub control plane has been initialized successfully!
...
    drover join --hub-token ... --hub-apiserver https://127.0.0.1:... --hub-ca-hash sha256:... --cluster-name <cluster_name> --deploy --wait
...
Replace <cluster_name> with a cluster name of your choice. For example, cluster1.

$ kubectl --kubeconfig hub.kubeconfig get deployment -n open-cluster-management-hub drover-hub -o jsonpath='{.spec.template.spec.containers[0].env[0].value}{"\n"}'
debug

# Where the hub is reached may change, and whoever joins later is told.
$ drover --kubeconfig hub.kubeconfig init --values values.yaml --hub-apiserver https://hub.example:6443 | grep -e cluster-info -e managedclusters.cluster
customresourcedefinition.apiextensions.k8s.io/managedclusters.cluster.open-cluster-management.io unchanged
configmap/cluster-info configured
role.rbac.authorization.k8s.io/open-cluster-management:cluster-info unchanged
rolebinding.rbac.authorization.k8s.io/open-cluster-management:cluster-info unchanged

# Another time changes nothing else, and programs get JSON and nothing else.
$ drover --kubeconfig hub.kubeconfig init --values values.yaml -o json
{
  "hub-apiserver": "https://127.0.0.1:...",
  "hub-ca-hash": "sha256:...",
  "hub-token": "..."
}

$ drover --kubeconfig hub.kubeconfig get token
token=...
please log on spoke and run:
drover join --hub-token ... --cluster-name <cluster_name> --deploy

$ drover --kubeconfig hub.kubeconfig get hub-info
Registration Operator:	<none>
Components:
  Hub:
    Controller:	(1/1) drover:...
  CustomResourceDefinition:
    (installed) addondeploymentconfigs.addon.open-cluster-management.io [*v1alpha1...
...

# The cluster joins by the command that init has left. Its pod is a process beside the hub's, and takes another port.
$ sed -i 's/--deploy/--deploy --values agent.yaml/' join.sh

$ KUBECONFIG=edge.kubeconfig sh join.sh edge
namespace/open-cluster-management-agent unchanged
...
deployment.apps/drover-agent created
...
    drover accept --clusters edge
...

$ drover --kubeconfig hub.kubeconfig accept --clusters edge
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl --kubeconfig hub.kubeconfig wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

$ kubectl --kubeconfig hub.kubeconfig apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl --kubeconfig hub.kubeconfig wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

$ drover --kubeconfig edge.kubeconfig get klusterlet-info
Registration Operator:	<none>
Components:
  Agent:
    Controller:	(1/1) drover:...
  CustomResourceDefinition:
    (installed) appliedmanifestworks.work.open-cluster-management.io [*v1]
    (installed) clusterclaims.cluster.open-cluster-management.io [*v1alpha1]
    (installed) clusterproperties.about.k8s.io [*v1alpha1]

# It is not made another cluster by accident, nor taken away while it has works, nor is the hub while it has clusters.
$ KUBECONFIG=edge.kubeconfig sh join.sh other 2>&1
...the cluster is edge already...
exit 1

$ sed 's/--deploy/--deploy --namespace open-cluster-management-other/' join.sh > other.sh && KUBECONFIG=edge.kubeconfig sh other.sh edge 2>&1
error: the agent of edge is in namespace open-cluster-management-agent already: `drover unjoin --cluster-name edge --namespace open-cluster-management-agent` first, or go on beside it with --force
exit 1

# Beside each other they have nothing of each other's.
$ sed -i 's/--wait/--force --dry-run/' other.sh && KUBECONFIG=edge.kubeconfig sh other.sh edge | grep -e binding
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:drover-agent:open-cluster-management-other created (dry run)
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:drover-agent:works:open-cluster-management-other created (dry run)
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:drover-agent:execution-admin:open-cluster-management-other created (dry run)
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:drover-agent:metrics:open-cluster-management-other created (dry run)

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name other 2>&1
...this cluster is edge and not other...
exit 1

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge 2>&1
Remove applied resources in the managed cluster edge ... 
...the cluster still has the works ...-hello: delete them on the hub first...
exit 1

$ drover --kubeconfig hub.kubeconfig clean 2>&1
...Please detach all managed clusters from the hub control plane: `kubectl delete managedcluster edge`...
exit 1

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge --force --dry-run
Remove applied resources in the managed cluster edge ... 
deployment.apps/drover-agent deleted (dry run)
...
namespace/open-cluster-management-agent deleted (dry run)

# With --force what the works applied stays.
$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge --force
Remove applied resources in the managed cluster edge ... 
deployment.apps/drover-agent deleted
...
namespace/open-cluster-management-agent deleted
Applied resources have been deleted during the edge joined stage. The status of mcl edge will be unknown in the hub cluster.

$ kubectl --kubeconfig edge.kubeconfig get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

$ kubectl --kubeconfig edge.kubeconfig get namespaces,clusterroles,clusterrolebindings,deployments -A -o name | grep -e open-cluster-management -e drover
exit 1

# Nobody cleans up after the work on the cluster any more.
$ kubectl --kubeconfig hub.kubeconfig patch manifestwork hello -n edge --type=merge -p '{"metadata":{"finalizers":null}}'
manifestwork.work.open-cluster-management.io/hello patched

$ kubectl --kubeconfig hub.kubeconfig delete managedcluster edge --timeout=60s
managedcluster.cluster.open-cluster-management.io "edge" deleted

# What only the hub lets go of goes while it is still there.
$ kubectl --kubeconfig hub.kubeconfig apply -f add-on.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworld created

# The hub is a managed cluster of upstream's, too: the namespace of its agent's operator is ours as well.
$ kubectl --kubeconfig hub.kubeconfig create deployment -n open-cluster-management klusterlet --image=none --replicas=0
deployment.apps/klusterlet created

$ drover --kubeconfig hub.kubeconfig clean 2>&1
clustermanagementaddon.addon.open-cluster-management.io/helloworld deleted
rolebinding.rbac.authorization.k8s.io/open-cluster-management:cluster-info deleted
role.rbac.authorization.k8s.io/open-cluster-management:cluster-info deleted
configmap/cluster-info deleted
...
deployment.apps/drover-hub deleted
...
namespace open-cluster-management stays: Deployment open-cluster-management/klusterlet is in it
The multicluster hub control plane has been clean up successfully!

$ kubectl --kubeconfig hub.kubeconfig get deployments,serviceaccounts -n open-cluster-management -o name
deployment.apps/klusterlet
serviceaccount/default

$ kubectl --kubeconfig hub.kubeconfig delete namespace open-cluster-management
namespace "open-cluster-management" deleted

$ kubectl --kubeconfig hub.kubeconfig get crds,namespaces,clusterroles,clusterrolebindings,roles,rolebindings,deployments -A -o name | grep -e open-cluster-management -e drover
exit 1

$ kubectl --kubeconfig hub.kubeconfig get configmap -n kube-public cluster-info 2>&1
Error from server (NotFound): configmaps "cluster-info" not found
exit 1

stop two

stop one
