# An installation of upstream's becomes one of ours, in both layouts, and one of upstream's again. Works and add-ons stay as they are all the
# time: nobody writes what they have applied. The tags of upstream's images choose the program here: v1.2.1 is upstream's own, v1.3.1 is ours.

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

let POD $ echo "bash $STORY_SOURCES/tests/conformance/upstream/pod"

start one $ drover kube up --data-dir one --write-kubeconfig hub.kubeconfig --node-image-map "quay.io/open-cluster-management/registration-operator:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/registration:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/work:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/placement:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/addon-manager:v1.2.1=$POD"

wait log one
kube ready ...
...
Try:
...

start two $ drover kube up --data-dir two --write-kubeconfig edge.kubeconfig --node-image-map "quay.io/open-cluster-management/registration-operator:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/registration:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/work:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/placement:v1.2.1=$POD" --node-image-map "quay.io/open-cluster-management/addon-manager:v1.2.1=$POD"

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

# To ours, object for object.
$ clusteradm $HUB upgrade clustermanager --bundle-version v1.3.1 2>/dev/null
clustermanager installed. starting upgrade
...
upgraded completed successfully

$ clusteradm $EDGE upgrade klusterlet --bundle-version v1.3.1 2>/dev/null
Klusterlet installed. starting upgrade upgraded completed successfully

wait $ kubectl $HUB get deployments -n open-cluster-management-hub -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image} {.status.updatedReplicas}/{.status.readyReplicas}/{.status.replicas}{"\n"}{end}' | sed 's/.*://' | sort -u
v1.3.1 1/1/1

wait $ kubectl $EDGE get deployments -n open-cluster-management-agent -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image} {.status.updatedReplicas}/{.status.readyReplicas}/{.status.replicas}{"\n"}{end}' | sed 's/.*://' | sort -u
v1.3.1 1/1/1

$ kubectl $HUB wait clustermanager/cluster-manager --for=condition=Progressing=False --timeout=60s
clustermanager.operator.open-cluster-management.io/cluster-manager condition met

$ kubectl $EDGE wait klusterlet/klusterlet --for=condition=Available --timeout=120s
klusterlet.operator.open-cluster-management.io/klusterlet condition met

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=120s
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

# To ours in one Deployment each.
$ drover $HUB upgrade clustermanager --wait
...

$ drover $EDGE upgrade klusterlet --wait
...

wait $ kubectl $HUB get deployments -n open-cluster-management-hub -o name
deployment.apps/cluster-manager-registration-controller

wait $ kubectl $EDGE get deployments -n open-cluster-management-agent -o name
deployment.apps/klusterlet-agent

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=120s
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

# And back to upstream's own.
$ clusteradm $HUB upgrade clustermanager --bundle-version v1.2.1 2>/dev/null
...
upgraded completed successfully

$ clusteradm $EDGE upgrade klusterlet --bundle-version v1.2.1 2>/dev/null
Klusterlet installed. starting upgrade upgraded completed successfully

wait $ kubectl $HUB get deployments -n open-cluster-management-hub -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image} {.status.updatedReplicas}/{.status.readyReplicas}/{.status.replicas}{"\n"}{end}' | sed 's/.*://' | sort -u
v1.2.1 1/1/1

wait $ kubectl $EDGE get deployments -n open-cluster-management-agent -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image} {.status.updatedReplicas}/{.status.readyReplicas}/{.status.replicas}{"\n"}{end}' | sed 's/.*://' | sort -u
v1.2.1 1/1/1

$ kubectl $HUB wait clustermanager/cluster-manager --for=condition=Progressing=False --timeout=60s
clustermanager.operator.open-cluster-management.io/cluster-manager condition met

$ kubectl $EDGE wait klusterlet/klusterlet --for=condition=Available --timeout=120s
klusterlet.operator.open-cluster-management.io/klusterlet condition met

$ kubectl $HUB wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=120s
managedcluster.cluster.open-cluster-management.io/edge condition met

# A work is still carried out, by whoever is there now.
$ sh untouched | diff before -

$ sed -i 's/color: [a-z]*/color: white/' work.yaml && kubectl $HUB apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello configured

wait $ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
white

wait $ kubectl $HUB get manifestwork -n edge hello -o jsonpath='{.metadata.generation} {.status.conditions[?(@.type=="Applied")].observedGeneration}{"\n"}' | awk '{ print $1 == $2 }'
1

$ sh untouched > before

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

# Upstream's operator, which is the one that cleans up here, seldom leaves roles: it applies them once more while it deletes them.
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
