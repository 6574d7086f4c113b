# A hub and an agent as they were installed before there were operators: a Deployment each, of the charts drover-hub and drover-agent.
# An operator is put in their place. It takes them off when its own pods run, and works and add-ons stay as they are.

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

# What must not change: the objects that works and add-ons have applied, to the last write, and the works themselves.
file untouched
    version='{.kind}/{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{"\n"}'
    kubectl $EDGE get configmap hello -o jsonpath="$version"
    kubectl $EDGE get deployment idle -o jsonpath="$version"
    kubectl $EDGE get configmap -n open-cluster-management-agent-addon from-template -o jsonpath="$version"
    kubectl $EDGE get appliedmanifestworks -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}'
    kubectl $HUB get manifestworks,managedclusteraddons,managedclusters -A -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.generation}{"\n"}{end}'

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

set HUB=--kubeconfig=hub.kubeconfig

set EDGE=--kubeconfig=edge.kubeconfig

$ drover manifests hub | kubectl $HUB apply -f -
...
deployment.apps/drover-hub created

wait $ kubectl $HUB get deployment -n open-cluster-management-hub drover-hub -o jsonpath='{.status.readyReplicas}{"\n"}'
1

$ drover $HUB get token -o kubeconfig > bootstrap.kubeconfig

$ drover manifests agent --cluster-name edge | kubectl $EDGE apply -f -
...
deployment.apps/drover-agent created

$ kubectl $EDGE create secret generic -n open-cluster-management-agent bootstrap-hub-kubeconfig --from-file=kubeconfig=bootstrap.kubeconfig
secret/bootstrap-hub-kubeconfig created

$ drover $HUB accept --clusters edge --wait
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

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

$ sh untouched > before && wc -l < before
9

# The hub.
$ drover $HUB init --wait --output-join-command-file join.sh
...
The multicluster hub control plane has been initialized successfully!
...

wait $ kubectl $HUB get deployments -n open-cluster-management-hub -o name
deployment.apps/cluster-manager-registration-controller

wait $ kubectl $HUB get clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,services,secrets -A -o name | grep drover-hub
exit 1

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

# A work is still carried out, by whoever is there now.
$ sh untouched | diff before -

$ sed -i 's/color: [a-z]*/color: green/' work.yaml && kubectl $HUB apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello configured

wait $ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
green

wait $ kubectl $HUB get manifestwork -n edge hello -o jsonpath='{.metadata.generation} {.status.conditions[?(@.type=="Applied")].observedGeneration}{"\n"}' | awk '{ print $1 == $2 }'
1

$ sh untouched > before

# The agent.
$ KUBECONFIG=edge.kubeconfig sh join.sh edge
...

wait $ kubectl $EDGE get deployments -n open-cluster-management-agent -o name
deployment.apps/klusterlet-agent

wait $ kubectl $EDGE get clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts -A -o name | grep drover-agent
exit 1

$ kubectl $EDGE wait klusterlet/klusterlet --for=condition=Available --timeout=60s
klusterlet.operator.open-cluster-management.io/klusterlet condition met

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

# A work is still carried out, by whoever is there now.
$ sh untouched | diff before -

$ sed -i 's/color: [a-z]*/color: blue/' work.yaml && kubectl $HUB apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello configured

wait $ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
blue

wait $ kubectl $HUB get manifestwork -n edge hello -o jsonpath='{.metadata.generation} {.status.conditions[?(@.type=="Applied")].observedGeneration}{"\n"}' | awk '{ print $1 == $2 }'
1

$ sh untouched > before

stop two

stop one
