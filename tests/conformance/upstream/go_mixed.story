# Every part of ours beside upstream's others, and the other way round: the parts meet at the API alone. First ours are placement
# on the hub and the work agent on the cluster, among upstream's; then upstream's take these places, and ours all others, on the
# same objects.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}

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

start kube $ drover kube up --data-dir hub

wait log kube
kube ready ...
...
Try:
...

start other $ drover kube up --data-dir edge

wait log other
kube ready ...
...
Try:
...

set KUBECONFIG=hub/kube.kubeconfig

set EDGE=--kubeconfig=edge/kube.kubeconfig

$ kubectl apply --server-side -f $DEFINITIONS
...

# The conversion between the versions of the add-on kinds.
$ kubectl $EDGE apply --server-side -f $DEFINITIONS/work.open-cluster-management.io_appliedmanifestworks.yaml -f $DEFINITIONS/cluster.open-cluster-management.io_clusterclaims.yaml
...

$ kubectl $EDGE create namespace open-cluster-management-agent && kubectl $EDGE create namespace open-cluster-management-agent-addon && mkdir credential
...
...

$ mkdir certs && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout certs/tls.key -out certs/tls.crt -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null

port PORT

start convert $ drover addon webhook-server --kubeconfig hub/kube.kubeconfig --certdir certs --port $PORT --health-probe-port 0 --metrics-port 0

let CA $ base64 -w0 certs/tls.crt

$ for kind in clustermanagementaddons managedclusteraddons; do kubectl patch crd $kind.addon.open-cluster-management.io --type=merge -p '{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:'$PORT'/convert","caBundle":"'$CA'"}}}}}'; done
...
...

$ kubectl create namespace open-cluster-management-hub
namespace/open-cluster-management-hub created

# Upstream's hub with our placement.
port PORT1

start registration $ ocm-registration controller --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:$PORT1

start placement $ drover placement controller --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:0

port PORT2

start manager $ ocm-work manager --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:$PORT2 --feature-gates=ManifestWorkReplicaSet=true

port PORT3

start addon $ ocm-addon manager --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:$PORT3

wait $ kubectl get managedclustersets -o name
managedclusterset.cluster.open-cluster-management.io/default
managedclusterset.cluster.open-cluster-management.io/global

# Upstream's registration with our work.
port PORT4

start joined $ ocm-registration agent --kubeconfig edge/kube.kubeconfig --spoke-cluster-name edge --namespace open-cluster-management-agent --disable-leader-election --listen 127.0.0.1:$PORT4 --bootstrap-kubeconfig hub/kube.kubeconfig --hub-kubeconfig-dir credential

$ drover accept --clusters edge --wait --requesters kubernetes-admin
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=120s
managedcluster.cluster.open-cluster-management.io/edge condition met

wait $ ls credential
agent-name
cluster-name
kubeconfig
tls.crt
tls.key

start work $ drover work agent --kubeconfig edge/kube.kubeconfig --spoke-cluster-name edge --namespace open-cluster-management-agent --disable-leader-election --listen 127.0.0.1:0 --agent-id edge --hub-kubeconfig credential/kubeconfig

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=120s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

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

$ kubectl delete -f template.yaml -f everywhere.yaml -f work.yaml --timeout=120s
...

wait $ kubectl get manifestworks,managedclusteraddons -A -o name

wait $ kubectl $EDGE get configmaps -A --no-headers -o custom-columns=NAME:.metadata.name | grep -e hello -e many -e from-template
exit 1

stop work

stop joined

stop addon

stop manager

stop placement

stop registration

# Our hub with upstream's placement, and our registration with upstream's work, go on with what is there.
start registration2 $ drover registration controller --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:0

port PORT5

start placement2 $ ocm-placement controller --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:$PORT5

start manager2 $ drover work manager --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:0 --feature-gates=ManifestWorkReplicaSet=true

start addon2 $ drover addon manager --kubeconfig hub/kube.kubeconfig --namespace open-cluster-management-hub --disable-leader-election --listen 127.0.0.1:0

start joined2 $ drover registration agent --kubeconfig edge/kube.kubeconfig --spoke-cluster-name edge --namespace open-cluster-management-agent --disable-leader-election --listen 127.0.0.1:0 --bootstrap-kubeconfig hub/kube.kubeconfig --hub-kubeconfig-dir credential

port PORT6

start work2 $ ocm-work agent --kubeconfig edge/kube.kubeconfig --spoke-cluster-name edge --namespace open-cluster-management-agent --disable-leader-election --listen 127.0.0.1:$PORT6 --agent-id edge --hub-kubeconfig credential/kubeconfig --workload-source-config credential/kubeconfig

wait $ kubectl get managedcluster edge -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status}{"\n"}'
True

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=120s
manifestwork.work.open-cluster-management.io/hello condition met

$ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

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

$ kubectl delete -f template.yaml -f everywhere.yaml -f work.yaml --timeout=120s
...

wait $ kubectl get manifestworks,managedclusteraddons -A -o name

wait $ kubectl $EDGE get configmaps -A --no-headers -o custom-columns=NAME:.metadata.name | grep -e hello -e many -e from-template
exit 1

stop work2

stop joined2

stop addon2

stop manager2

stop placement2

stop registration2

stop convert

stop other

stop kube
