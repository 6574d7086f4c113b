# Upstream's own agents, registration and work, on a cluster of our hub: they join, carry out works, and register add-ons.

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
      manifestConfigs:
        - resourceIdentifier: {group: apps, resource: deployments, name: idle, namespace: default}
          updateStrategy: {type: ServerSideApply}
          feedbackRules: [{type: JSONPaths, jsonPaths: [{name: wanted, path: .spec.replicas}]}]

file everywhere.yaml
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
    apiVersion: work.open-cluster-management.io/v1alpha1
    kind: ManifestWorkReplicaSet
    metadata: {name: many, namespace: default}
    spec:
      placementRefs: [{name: everywhere}]
      manifestWorkTemplate:
        workload:
          manifests:
            - {apiVersion: v1, kind: ConfigMap, metadata: {name: many, namespace: default}}

file template.yaml
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
            - {apiVersion: v1, kind: Namespace, metadata: {name: open-cluster-management-agent-addon}}
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

start up $ drover up --clusters 0

wait log up
...
ready in ...
...

start kube $ drover kube up --data-dir edge

wait log kube
kube ready ...
...
Try:
...

set KUBECONFIG=.drover/hub.kubeconfig

set EDGE=--kubeconfig=edge/kube.kubeconfig

$ kubectl $EDGE apply -f $DEFINITIONS/work.open-cluster-management.io_appliedmanifestworks.yaml -f $DEFINITIONS/cluster.open-cluster-management.io_clusterclaims.yaml
...

$ kubectl $EDGE create namespace open-cluster-management-agent
namespace/open-cluster-management-agent created

$ drover get token -o kubeconfig > bootstrap && mkdir credential

port PORT1

start registration $ ocm-registration agent --kubeconfig edge/kube.kubeconfig --spoke-cluster-name edge --bootstrap-kubeconfig bootstrap --hub-kubeconfig-dir credential --namespace open-cluster-management-agent --disable-leader-election --listen 127.0.0.1:$PORT1

$ drover accept --clusters edge --wait
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

wait $ ls credential
agent-name
cluster-name
kubeconfig
tls.crt
tls.key

port PORT2

start work $ ocm-work agent --kubeconfig edge/kube.kubeconfig --spoke-cluster-name edge --hub-kubeconfig credential/kubeconfig --workload-source-config credential/kubeconfig --namespace open-cluster-management-agent --disable-leader-election --listen 127.0.0.1:$PORT2

# Works.
$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=120s
manifestwork.work.open-cluster-management.io/hello condition met

wait $ kubectl get manifestwork -n edge hello -o jsonpath='{.status.resourceStatus.manifests[1].statusFeedback.values[0].fieldValue.integer}{"\n"}'
0

$ drover get works hello --clusters edge
...

$ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

# A replica set, and an add-on made of a template.
$ kubectl apply -f everywhere.yaml
...
manifestworkreplicaset.work.open-cluster-management.io/many created

wait $ kubectl get manifestworkreplicaset many -o jsonpath='{.status.summary.applied} {.status.summary.available}{"\n"}'
1 1

$ kubectl apply -f template.yaml
...
clustermanagementaddon.addon.open-cluster-management.io/hello-template created

wait $ kubectl get managedclusteraddon -A
NAMESPACE   NAME             AVAILABLE   DEGRADED   PROGRESSING
edge        hello-template   True                   False

wait $ kubectl $EDGE get secret -n open-cluster-management-agent-addon hello-template-hub-kubeconfig -o name
secret/hello-template-hub-kubeconfig

$ kubectl $EDGE get configmap -n open-cluster-management-agent-addon from-template -o jsonpath='{.data.cluster}{"\n"}'
edge

# What their agent says of the certificate it may lose to a conflict with the hub, and then it is never said.
wait $ drover why managedclusteraddon/edge/hello-template | grep -v -e 'waits for nothing' -e 'has its certificate; the agent of edge has not said'
exit 1

# And everything goes again.
$ kubectl delete -f template.yaml -f everywhere.yaml -f work.yaml --timeout=120s
...

wait $ kubectl get manifestworks,managedclusteraddons -A -o name

wait $ kubectl $EDGE get configmaps -A --no-headers -o custom-columns=NAME:.metadata.name | grep -e hello -e many -e from-template
exit 1

stop work

stop registration

stop kube

stop up
