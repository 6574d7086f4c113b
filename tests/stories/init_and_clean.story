# Embedded only: pods are processes of this machine.
#
# A hub and an agent put on clusters, upgraded and taken off again, as clusteradm users do: init, join, accept, upgrade,
# unjoin, clean. Each is one Deployment beside its operator's. The two APIs know nothing of Open Cluster Management before
# and after.

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

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig

wait log one
kube ready ...
...
Try:
...

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig

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

$ drover --kubeconfig hub.kubeconfig upgrade clustermanager 2>&1
...clustermanager is not installed: ... is no hub; `drover init` makes it one
exit 1

$ drover --kubeconfig hub.kubeconfig delete token 2>&1
...this is not a hub...
exit 1

# A dry run tells everything and writes nothing.
$ drover --kubeconfig hub.kubeconfig init --dry-run
customresourcedefinition.apiextensions.k8s.io/clustermanagers.operator.open-cluster-management.io created (dry run)
configmap/cluster-info created (dry run)
role.rbac.authorization.k8s.io/open-cluster-management:cluster-info created (dry run)
rolebinding.rbac.authorization.k8s.io/open-cluster-management:cluster-info created (dry run)
namespace/open-cluster-management created (dry run)
...
deployment.apps/cluster-manager created (dry run)
clustermanager.operator.open-cluster-management.io/cluster-manager created (dry run)

$ kubectl --kubeconfig hub.kubeconfig get namespace open-cluster-management 2>&1
Error from server (NotFound): namespaces "open-cluster-management" not found
exit 1

# A mistake is told before anything is written.
$ drover --kubeconfig hub.kubeconfig init --feature-gates Nothing=true 2>&1
...unrecognized feature gate: Nothing...
...
exit 2

$ drover --kubeconfig hub.kubeconfig init --set images.tags=x 2>&1
...images...
exit 1

$ drover --kubeconfig hub.kubeconfig init --registration-drivers csr,grpc 2>&1
...drover registers clusters by certificate requests only...
...
exit 2

$ drover --kubeconfig hub.kubeconfig init --singleton 2>&1
...`drover kube up` starts a Kubernetes API to make a hub of...
...
exit 2

$ bash -c 'time drover --kubeconfig hub.kubeconfig init --wait --output-join-command-file join.sh' 2>> times
customresourcedefinition.apiextensions.k8s.io/clustermanagers.operator.open-cluster-management.io created
CRD successfully registered.
...
deployment.apps/cluster-manager created
clustermanager.operator.open-cluster-management.io/cluster-manager created
Registration operator is now available.
ClusterManager registration is now available.
...
The multicluster hub control plane has been initialized successfully!
...
    drover join --hub-token ... --hub-apiserver https://127.0.0.1:... --hub-ca-hash sha256:... --cluster-name <cluster_name> --wait
...
Replace <cluster_name> with a cluster name of your choice. For example, cluster1.

$ kubectl --kubeconfig hub.kubeconfig get clustermanager cluster-manager -o jsonpath='{range .status.conditions[*]}{.type}={.status}{"\n"}{end}' | sort
Applied=True
HubPlacementDegraded=False
HubRegistrationDegraded=False
Progressing=False
ValidFeatureGates=True

# Two Deployments are all there is: the operator's, and the hub's.
$ kubectl --kubeconfig hub.kubeconfig get deployments -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
open-cluster-management-hub/cluster-manager-registration-controller
open-cluster-management/cluster-manager

# Where the hub is reached may change, and whoever joins later is told. All else is as it was.
$ drover --kubeconfig hub.kubeconfig init --hub-apiserver https://hub.example:6443 | grep -e ' configured' -e ' created'
configmap/cluster-info configured

# Programs get JSON and nothing else.
$ drover --kubeconfig hub.kubeconfig init -o json
{
  "hub-apiserver": "https://127.0.0.1:...",
  "hub-ca-hash": "sha256:...",
  "hub-token": "..."
}

$ drover --kubeconfig hub.kubeconfig get token
token=...
please log on spoke and run:
drover join --hub-token ... --cluster-name <cluster_name>

$ drover --kubeconfig hub.kubeconfig get hub-info
Registration Operator:
  Controller:	(1/1) drover:...
  CustomResourceDefinition:
    (installed) clustermanagers.operator.open-cluster-management.io [*v1]
Components:
  Registration:
    Controller:	(1/1) drover:...
  CustomResourceDefinition:
    (installed) addondeploymentconfigs.addon.open-cluster-management.io [*v1alpha1...
...

# The cluster joins by the command that init has left.
$ KUBECONFIG=edge.kubeconfig bash -c 'time sh join.sh edge' 2>> times
customresourcedefinition.apiextensions.k8s.io/klusterlets.operator.open-cluster-management.io created
CRD successfully registered.
namespace/open-cluster-management created
namespace/open-cluster-management-agent created
...
deployment.apps/klusterlet created
klusterlet.operator.open-cluster-management.io/klusterlet created
Registration operator is now available.
Klusterlet is now available.
Managed cluster is created.
...
    drover accept --clusters edge
...

$ bash -c 'time drover --kubeconfig hub.kubeconfig accept --clusters edge --wait' 2>> times
...
Your managed cluster edge has joined the Hub successfully.

$ bash -c 'time kubectl --kubeconfig hub.kubeconfig wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s' 2>> times
managedcluster.cluster.open-cluster-management.io/edge condition met

wait $ kubectl --kubeconfig edge.kubeconfig get klusterlet klusterlet -o jsonpath='{range .status.conditions[*]}{.type}={.status}{"\n"}{end}' | sort
Applied=True
Available=True
HubConnectionDegraded=False
RegistrationDesiredDegraded=False
ValidFeatureGates=True
WorkDesiredDegraded=False

$ kubectl --kubeconfig edge.kubeconfig get deployments -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
open-cluster-management-agent/klusterlet-agent
open-cluster-management/klusterlet

$ kubectl --kubeconfig hub.kubeconfig apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl --kubeconfig hub.kubeconfig wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl --kubeconfig hub.kubeconfig apply -f add-on.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworld created

$ drover --kubeconfig hub.kubeconfig addon enable --names helloworld --clusters edge
Deploying helloworld add-on to namespaces open-cluster-management-agent-addon of managed cluster: edge.

$ kubectl --kubeconfig hub.kubeconfig wait -n edge managedclusteraddon/helloworld --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworld condition met

$ drover --kubeconfig edge.kubeconfig get klusterlet-info
Klusterlet Conditions:
  Type:	...
...
Registration Operator:
  Controller:	(1/1) drover:...
  CustomResourceDefinition:
    (installed) klusterlets.operator.open-cluster-management.io [*v1]
Components:
  Agent:
    Controller:	(1/1) drover:...
  CustomResourceDefinition:
    (installed) appliedmanifestworks.work.open-cluster-management.io [*v1]
    (installed) clusterclaims.cluster.open-cluster-management.io [*v1alpha1]
...

# Another image, and nothing else: works and add-ons are not written.
let BEFORE $ kubectl --kubeconfig edge.kubeconfig get appliedmanifestworks,configmaps -A -o jsonpath='{range .items[?(@.metadata.name!="x")]}{.kind}/{.metadata.name}/{.metadata.uid}{"\n"}{end}' | grep -e AppliedManifestWork -e ConfigMap/hello/ | md5sum

$ kubectl --kubeconfig hub.kubeconfig patch clustermanager cluster-manager --type=merge -p '{"spec":{"nodePlacement":{"nodeSelector":{"kubernetes.io/os":"linux"}}}}'
clustermanager.operator.open-cluster-management.io/cluster-manager patched

$ drover --kubeconfig hub.kubeconfig upgrade clustermanager --image drover:next --wait
clustermanager installed. starting upgrade
...
clustermanager.operator.open-cluster-management.io/cluster-manager configured
Registration operator is now available.
upgraded completed successfully

$ kubectl --kubeconfig hub.kubeconfig get clustermanager cluster-manager -o jsonpath='{.spec.registrationImagePullSpec} {.spec.nodePlacement.nodeSelector}{"\n"}'
drover:next {"kubernetes.io/os":"linux"}

$ drover --kubeconfig edge.kubeconfig upgrade klusterlet --image drover:next --wait
Klusterlet installed. starting upgrade
...
klusterlet.operator.open-cluster-management.io/klusterlet configured
Registration operator is now available.
upgraded completed successfully

$ kubectl --kubeconfig edge.kubeconfig get klusterlet klusterlet -o jsonpath='{.spec.imagePullSpec} {.spec.clusterName} {.spec.deployOption.mode}{"\n"}'
drover:next edge Default

$ kubectl --kubeconfig edge.kubeconfig get appliedmanifestworks,configmaps -A -o jsonpath='{range .items[?(@.metadata.name!="x")]}{.kind}/{.metadata.name}/{.metadata.uid}{"\n"}{end}' | grep -e AppliedManifestWork -e ConfigMap/hello/ | md5sum | grep -c "$BEFORE"
1

# It is not made another cluster by accident, nor taken away while it has works, nor is the hub while it has clusters.
$ KUBECONFIG=edge.kubeconfig sh join.sh other 2>&1
error: the cluster is edge already: `drover unjoin --cluster-name edge` first, or rename it with --force
exit 1

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name other 2>&1
...this cluster is edge and not other...
exit 1

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge 2>&1
Remove applied resources in the managed cluster edge ... 
...the cluster still has the works ...: delete them on the hub first...
exit 1

$ drover --kubeconfig hub.kubeconfig clean 2>&1
...Please detach all managed clusters from the hub control plane: `kubectl delete managedcluster edge`...
exit 1

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge --force --dry-run
Remove applied resources in the managed cluster edge ... 
klusterlet.operator.open-cluster-management.io/klusterlet deleted (dry run)
...
namespace/open-cluster-management-agent deleted (dry run)
...

$ drover --kubeconfig hub.kubeconfig addon disable --names helloworld
Undeploying helloworld add-on in managed cluster: edge.

wait $ kubectl --kubeconfig hub.kubeconfig get managedclusteraddons -n edge -o name

# With --force what the works applied stays.
$ bash -c 'time drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge --force' 2>> times
Remove applied resources in the managed cluster edge ... 
klusterlet.operator.open-cluster-management.io/klusterlet deleted
...
customresourcedefinition.apiextensions.k8s.io/klusterlets.operator.open-cluster-management.io deleted
...
Applied resources have been deleted during the edge joined stage. The status of mcl edge will be unknown in the hub cluster.

$ kubectl --kubeconfig edge.kubeconfig get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

$ kubectl --kubeconfig edge.kubeconfig get namespaces,clusterroles,clusterrolebindings,roles,rolebindings,deployments -A -o name | grep -e open-cluster-management -e klusterlet -e drover
exit 1

# Nobody cleans up after the work on the cluster any more.
$ kubectl --kubeconfig hub.kubeconfig patch manifestwork hello -n edge --type=merge -p '{"metadata":{"finalizers":null}}'
manifestwork.work.open-cluster-management.io/hello patched

$ kubectl --kubeconfig hub.kubeconfig delete managedcluster edge --timeout=60s
managedcluster.cluster.open-cluster-management.io "edge" deleted

$ bash -c 'time drover --kubeconfig hub.kubeconfig clean' 2>> times
clustermanager.operator.open-cluster-management.io/cluster-manager deleted
...
customresourcedefinition.apiextensions.k8s.io/clustermanagers.operator.open-cluster-management.io deleted
...
The multicluster hub control plane has been clean up successfully!

$ kubectl --kubeconfig hub.kubeconfig get crds,namespaces,clusterroles,clusterrolebindings,roles,rolebindings,deployments,validatingwebhookconfigurations,mutatingwebhookconfigurations -A -o name | grep -e open-cluster-management -e cluster-manager -e drover
exit 1

$ kubectl --kubeconfig hub.kubeconfig get configmap -n kube-public cluster-info 2>&1
Error from server (NotFound): configmaps "cluster-info" not found
exit 1

# How long init, join, accept, becoming available, unjoin and clean took.
$ grep -c real times
6

stop two

stop one
