# Embedded only: pods are processes of this machine, and upstream's images are this binary, by upstream's names.
#
# The same verbs with the flags of upstream's images make upstream's Deployments one for one; another upgrade makes them one
# Deployment each, and takes nothing away that is managed.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}

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

$ drover --kubeconfig hub.kubeconfig init --bundle-version 9.9.9 2>&1
...couldn't find the requested version bundle: 9.9.9; there are latest, 1.1.0, ...
...
exit 2

$ drover --kubeconfig hub.kubeconfig init --wait --bundle-version 1.3.0 --feature-gates ManifestWorkReplicaSet=true --resource-qos-class BestEffort --output-join-command-file join.sh
...
ClusterManager registration is now available.
...

$ kubectl --kubeconfig hub.kubeconfig get deployments -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
open-cluster-management-hub/cluster-manager-addon-manager-controller
open-cluster-management-hub/cluster-manager-addon-webhook
open-cluster-management-hub/cluster-manager-placement-controller
open-cluster-management-hub/cluster-manager-registration-controller
open-cluster-management-hub/cluster-manager-registration-webhook
open-cluster-management-hub/cluster-manager-work-controller
open-cluster-management-hub/cluster-manager-work-webhook
open-cluster-management/cluster-manager

$ drover --kubeconfig hub.kubeconfig get hub-info
Registration Operator:
  Controller:	(...3) quay.io/open-cluster-management/registration-operator:v1.3.0
...
Components:
  AddOn Manager:
    Controller:	(1/1) quay.io/open-cluster-management/addon-manager:v1.3.0
  Registration:
    Controller:	(1/1) quay.io/open-cluster-management/registration:v1.3.0
    Webhook:	(1/1) quay.io/open-cluster-management/registration:v1.3.0
  Work:
    Controller:	(1/1) quay.io/open-cluster-management/work:v1.3.0
    Webhook:	(1/1) quay.io/open-cluster-management/work:v1.3.0
  Placement:
    Controller:	(1/1) quay.io/open-cluster-management/placement:v1.3.0
  CustomResourceDefinition:
...

$ sed -i 's/$/ --image-registry quay.io\/open-cluster-management --klusterlet-annotation site=here/' join.sh && sed -i '1s/.*/#!\/bin\/sh/' join.sh

$ KUBECONFIG=edge.kubeconfig sh join.sh edge
...
Managed cluster is created.
...

$ drover --kubeconfig hub.kubeconfig accept --clusters edge --wait
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl --kubeconfig hub.kubeconfig wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

wait $ kubectl --kubeconfig hub.kubeconfig get managedcluster edge -o jsonpath='{.metadata.annotations.agent\.open-cluster-management\.io/site}{"\n"}'
here

wait $ drover --kubeconfig edge.kubeconfig get klusterlet-info | grep -A 4 -e '^Components'
Components:
  Registration:
    Agent:	(1/1) quay.io/open-cluster-management/registration:v1.3.1
  Work:
    Agent:	(1/1) quay.io/open-cluster-management/work:v1.3.1

$ kubectl --kubeconfig hub.kubeconfig apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl --kubeconfig hub.kubeconfig wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

let UID $ kubectl --kubeconfig edge.kubeconfig get configmap hello -o jsonpath='{.metadata.uid}'

# To this binary's own layout.
$ drover --kubeconfig hub.kubeconfig upgrade clustermanager --wait
clustermanager installed. starting upgrade
...
upgraded completed successfully

$ drover --kubeconfig edge.kubeconfig upgrade klusterlet --wait
Klusterlet installed. starting upgrade
...
upgraded completed successfully

wait $ kubectl --kubeconfig hub.kubeconfig get deployments -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
open-cluster-management-hub/cluster-manager-registration-controller
open-cluster-management/cluster-manager

wait $ kubectl --kubeconfig edge.kubeconfig get deployments -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
open-cluster-management-agent/klusterlet-agent
open-cluster-management/klusterlet

# What somebody asked for is kept.
$ kubectl --kubeconfig hub.kubeconfig get clustermanager cluster-manager -o jsonpath='{.spec.resourceRequirement.type} {.spec.workConfiguration.featureGates[0].feature}{"\n"}'
BestEffort ManifestWorkReplicaSet

$ kubectl --kubeconfig edge.kubeconfig get configmap hello -o jsonpath='{.metadata.uid}{"\n"}' | grep -c "$UID"
1

# The agent goes with its works: deleted on the hub, they are deleted on the cluster.
$ kubectl --kubeconfig hub.kubeconfig delete -f work.yaml --timeout=60s
manifestwork.work.open-cluster-management.io "hello" deleted...

$ kubectl --kubeconfig edge.kubeconfig get configmap hello 2>&1
Error from server (NotFound): configmaps "hello" not found
exit 1

$ drover --kubeconfig edge.kubeconfig unjoin --cluster-name edge
Remove applied resources in the managed cluster edge ... 
klusterlet.operator.open-cluster-management.io/klusterlet deleted
...
Applied resources have been deleted during the edge joined stage. The status of mcl edge will be unknown in the hub cluster.

$ kubectl --kubeconfig hub.kubeconfig delete managedcluster edge --timeout=60s
managedcluster.cluster.open-cluster-management.io "edge" deleted...

$ drover --kubeconfig hub.kubeconfig clean
clustermanager.operator.open-cluster-management.io/cluster-manager deleted
...
The multicluster hub control plane has been clean up successfully!

$ kubectl --kubeconfig hub.kubeconfig get crds,namespaces,clusterroles,clusterrolebindings,deployments -A -o name | grep -e open-cluster-management -e cluster-manager
exit 1

stop two

stop one
