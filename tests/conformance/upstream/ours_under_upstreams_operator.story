# Upstream's operator with our programs under it: it was put there by upstream's clusteradm, and makes its pods of images that are
# ours here. Everything but the operator and clusteradm is ours.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}
          - apiVersion: apps/v1
            kind: Deployment
            metadata: {name: idle, namespace: default}
            spec:
              replicas: 0
              selector: {matchLabels: {app: idle}}
              template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: x}]}}

file addon.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: global, namespace: default}
    spec: {clusterSet: global}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec: {clusterSets: [global]}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: cm-admin}
    rules: [{apiGroups: [""], resources: [configmaps], verbs: ["*"]}]
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnTemplate
    metadata: {name: hello-template}
    spec:
      addonName: hello-template
      agentSpec:
        workload:
          manifests:
            - apiVersion: v1
              kind: ConfigMap
              metadata: {name: from-template, namespace: open-cluster-management-agent-addon}
              data: {cluster: "{{CLUSTER_NAME}}"}
      registration:
        - type: KubeClient
          kubeClient: {hubPermissions: [{type: CurrentCluster, currentCluster: {clusterRoleName: cm-admin}}]}
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: hello-template, annotations: {addon.open-cluster-management.io/lifecycle: addon-manager}}
    spec:
      supportedConfigs:
        - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello-template}}
      installStrategy: {type: Placements, placements: [{name: everywhere, namespace: default}]}

let POD $ echo "bash $STORY_SOURCES/tests/conformance/upstream/pod"

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig --node-image-map "quay.io/open-cluster-management/registration-operator:v1.2.1=$POD"

wait log one
kube ready ...
...
Try:
...

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig --node-image-map "quay.io/open-cluster-management/registration-operator:v1.2.1=$POD"

wait log two
kube ready ...
...
Try:
...

set HUB=--kubeconfig=hub.kubeconfig

set EDGE=--kubeconfig=edge.kubeconfig

$ clusteradm $HUB init --bundle-version v1.2.1 --output-join-command-file join.sh 2>/dev/null
...
The multicluster hub control plane has been initialized successfully!
...

$ kubectl $HUB wait clustermanager/cluster-manager --for=condition=Progressing=False --timeout=120s
clustermanager.operator.open-cluster-management.io/cluster-manager condition met

$ sed -i 's/$/ --bundle-version v1.2.1 --wait/' join.sh && KUBECONFIG=edge.kubeconfig sh join.sh edge 2>/dev/null
...
    clusteradm accept --clusters edge
...

$ clusteradm $HUB accept --clusters edge --wait 2>/dev/null
...
 Your managed cluster edge has joined the Hub successfully. ...

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=120s
managedcluster.cluster.open-cluster-management.io/edge condition met

# All of them are pods, and nothing of them was started again.
wait $ kubectl $HUB get pods -n open-cluster-management-hub --no-headers -o custom-columns=NAME:.metadata.labels.app,READY:.status.containerStatuses[0].ready,RESTARTS:.status.containerStatuses[0].restartCount | LC_ALL=C sort
cluster-manager-addon-webhook             true   0
cluster-manager-registration-webhook      true   0
cluster-manager-work-webhook              true   0
clustermanager-addon-manager-controller   true   0
clustermanager-placement-controller       true   0
clustermanager-registration-controller    true   0

$ kubectl $HUB apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl $HUB wait -n edge manifestwork/hello --for=condition=Available --timeout=120s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

$ kubectl $HUB apply -f addon.yaml
...
clustermanagementaddon.addon.open-cluster-management.io/hello-template created

wait $ kubectl $HUB get managedclusteraddon -A
NAMESPACE   NAME             AVAILABLE   DEGRADED   PROGRESSING
edge        hello-template   True                   False

wait $ kubectl $EDGE get secret -n open-cluster-management-agent-addon hello-template-hub-kubeconfig -o name
secret/hello-template-hub-kubeconfig

$ clusteradm $HUB get hub-info
Registration Operator:
  Controller:	(3/3) quay.io/open-cluster-management/registration-operator:v1.2.1
  CustomResourceDefinition:
    (installed) clustermanagers.operator.open-cluster-management.io [*v1]
Components:
  AddOn Manager:
    Controller:	(1/1) quay.io/open-cluster-management/addon-manager:v1.2.1
  Registration:
    Controller:	(1/1) quay.io/open-cluster-management/registration:v1.2.1
    Webhook:	(1/1) quay.io/open-cluster-management/registration:v1.2.1
  Work:
    Webhook:	(1/1) quay.io/open-cluster-management/work:v1.2.1
  Placement:
    Controller:	(1/1) quay.io/open-cluster-management/placement:v1.2.1
  CustomResourceDefinition:
...
    (installed) managedclusters.cluster.open-cluster-management.io [*v1]
...

wait $ clusteradm $EDGE get klusterlet-info | sed -n '/^Registration Operator/,$p'
Registration Operator:
  Controller:	(1/1) quay.io/open-cluster-management/registration-operator:v1.2.1
  CustomResourceDefinition:
    (installed) klusterlets.operator.open-cluster-management.io
Components:
  Registration:
    Agent:	(1/1) quay.io/open-cluster-management/registration:v1.2.1
  Work:
    Agent:	(1/1) quay.io/open-cluster-management/work:v1.2.1
  CustomResourceDefinition:
    (installed) appliedmanifestworks.work.open-cluster-management.io [*v1]
    (installed) clusterclaims.cluster.open-cluster-management.io [*v1alpha1]

# And everything goes again.
$ kubectl $HUB delete -f addon.yaml -f work.yaml --timeout=120s
...

wait $ kubectl $HUB get manifestworks,managedclusteraddons -A -o name

wait $ kubectl $EDGE get configmaps -A --no-headers -o custom-columns=NAME:.metadata.name | grep -e hello -e from-template
exit 1

$ clusteradm $EDGE unjoin --cluster-name edge 2>/dev/null
Remove applied resources in the managed cluster edge ... 
...
Applied resources have been deleted during the edge joined stage. The status of mcl edge will be unknown in the hub cluster.

# A pass of upstream's operator that is under way may write roles anew behind its own clean-up.
wait $ kubectl $EDGE get namespaces,deployments -A -o name | grep -e open-cluster-management -e klusterlet | grep -v namespace/open-cluster-management$
exit 1

$ kubectl $HUB delete managedcluster edge --timeout=60s
managedcluster.cluster.open-cluster-management.io "edge" deleted

$ clusteradm $HUB clean 2>/dev/null
The multicluster hub control plane has been clean up successfully!

# clusteradm leaves what clusters may still join with.
wait $ kubectl $HUB get crds,namespaces,clusterroles,clusterrolebindings,deployments -A -o name | grep -e open-cluster-management -e cluster-manager | grep -v namespace/open-cluster-management$
clusterrole.rbac.authorization.k8s.io/open-cluster-management:bootstrap
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:bootstrap:agent-registration

stop two

stop one
