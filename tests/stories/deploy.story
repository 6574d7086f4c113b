# Embedded only: pods are processes of this machine, so that the manifests of deploy/ run as they are.
#
# Hub and agent as a Kubernetes runs them: a pod each, with the rights that their manifests give and no others. The two APIs
# know nothing of Open Cluster Management.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: hello}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {color: red}}

file forbidden.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: edge, name: forbidden}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ServiceAccount, metadata: {name: hello, namespace: default}}

file other.yaml
    apiVersion: cluster.open-cluster-management.io/v1
    kind: ManagedCluster
    metadata: {name: other, labels: {cluster.open-cluster-management.io/clusterset: global}}
    spec: {hubAcceptsClient: false}

file add-on.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: helloworld}
    spec: {addOnMeta: {displayName: helloworld}}

let DROVER $ command -v drover

port PORT

port HEALTH

port AGENT

$ printf 'webhooks: {port: %s}\nhealth: {port: %s}\n' $PORT $HEALTH > values.yaml && echo "health: {port: $AGENT}" > agent.yaml && echo "execution: false" > narrow.yaml

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

set KUBECONFIG=hub.kubeconfig

set EDGE=--kubeconfig=edge.kubeconfig

# The hub.
$ drover manifests hub --values values.yaml | kubectl apply -f -
...
deployment.apps/drover-hub created

wait $ kubectl get deployment -n open-cluster-management-hub drover-hub
NAME         READY   UP-TO-DATE   AVAILABLE   AGE
drover-hub   1/1     1            1           <age>

# It is available because it says that it is ready.
$ kubectl get deployment -n open-cluster-management-hub drover-hub -o jsonpath='{.spec.template.spec.containers[0].readinessProbe.httpGet.path}{"\n"}'
/readyz

# It listens at its pod's address, on whatever port others listen too.
let HUB_POD $ kubectl get pods -n open-cluster-management-hub -o jsonpath='{.items[0].status.podIP}'

# Health is told to anybody, as to the kubelet; the metrics to those who may see them.
$ kubectl --kubeconfig /dev/null --insecure-skip-tls-verify --server https://$HUB_POD:$HEALTH --token nobodys get --raw /healthz; echo
ok

$ kubectl --kubeconfig /dev/null --insecure-skip-tls-verify --server https://$HUB_POD:$HEALTH --token nobodys get --raw /metrics 2>&1
error: You must be logged in to the server (Unauthorized)
exit 1

$ kubectl create serviceaccount scraper && kubectl create clusterrole scraper --verb=get --non-resource-url=/metrics && kubectl create clusterrolebinding scraper --clusterrole=scraper --serviceaccount=default:scraper
serviceaccount/scraper created
clusterrole.rbac.authorization.k8s.io/scraper created
clusterrolebinding.rbac.authorization.k8s.io/scraper created

wait $ kubectl --kubeconfig /dev/null --insecure-skip-tls-verify --server https://$HUB_POD:$HEALTH --token "$(kubectl create token scraper)" get --raw /metrics | grep -c -e '^process_resident_memory_bytes '
1

wait $ kubectl get managedclustersets -o name
managedclusterset.cluster.open-cluster-management.io/default
managedclusterset.cluster.open-cluster-management.io/global

wait $ kubectl get lease -n open-cluster-management-hub drover-hub-lock -o name
lease.coordination.k8s.io/drover-hub-lock

# The hub answers the API server's webhooks: nobody puts a cluster into a set who may not join it, and the add-on kinds are
# served in both versions.
wait $ kubectl get validatingwebhookconfigurations -o name
validatingwebhookconfiguration.admissionregistration.k8s.io/managedclusteraddonvalidators.admission.addon.open-cluster-management.io
validatingwebhookconfiguration.admissionregistration.k8s.io/managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io
validatingwebhookconfiguration.admissionregistration.k8s.io/managedclustervalidators.admission.cluster.open-cluster-management.io
validatingwebhookconfiguration.admissionregistration.k8s.io/manifestworkreplicasetvalidators.admission.work.open-cluster-management.io
validatingwebhookconfiguration.admissionregistration.k8s.io/manifestworkvalidators.admission.work.open-cluster-management.io

$ kubectl create clusterrole writer --verb=create,get,update,patch --resource=managedclusters.cluster.open-cluster-management.io
clusterrole.rbac.authorization.k8s.io/writer created

$ kubectl create clusterrolebinding writer --clusterrole=writer --user=mary
clusterrolebinding.rbac.authorization.k8s.io/writer created

$ kubectl create --as mary -f other.yaml 2>&1
Error from server (Forbidden): error when creating "other.yaml": admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: ...
exit 1

# What a cluster asks to join with.
let TOKEN $ kubectl create token -n open-cluster-management agent-registration-bootstrap

let SERVER $ kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'

$ kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d > ca.crt

$ kubectl --kubeconfig bootstrap config set-cluster hub --server "$SERVER" --certificate-authority ca.crt --embed-certs
Cluster "hub" set.

$ kubectl --kubeconfig bootstrap config set-credentials cluster --token "$TOKEN"
User "cluster" set.

$ kubectl --kubeconfig bootstrap config set-context hub --cluster hub --user cluster
Context "hub" created.

$ kubectl --kubeconfig bootstrap config use-context hub
Switched to context "hub".

# The agent. Works may contain ConfigMaps and nothing else.
$ kubectl $EDGE create namespace open-cluster-management-agent
namespace/open-cluster-management-agent created

$ kubectl $EDGE create secret generic -n open-cluster-management-agent bootstrap-hub-kubeconfig --from-file=kubeconfig=bootstrap
secret/bootstrap-hub-kubeconfig created

$ kubectl $EDGE create clusterrole works --verb=get,list,watch,create,update,patch,delete --resource=configmaps
clusterrole.rbac.authorization.k8s.io/works created

$ kubectl $EDGE label clusterrole works open-cluster-management.io/aggregate-to-work=true
clusterrole.rbac.authorization.k8s.io/works labeled

$ drover manifests agent --cluster-name edge --values agent.yaml --values narrow.yaml | kubectl $EDGE apply -f -
...
deployment.apps/drover-agent created

$ drover accept --clusters edge --wait
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl wait managedcluster/edge --for=condition=ManagedClusterConditionAvailable --timeout=60s
managedcluster.cluster.open-cluster-management.io/edge condition met

$ kubectl apply -f work.yaml -f forbidden.yaml
manifestwork.work.open-cluster-management.io/hello created
manifestwork.work.open-cluster-management.io/forbidden created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

wait $ kubectl $EDGE get deployment -n open-cluster-management-agent drover-agent
NAME           READY   UP-TO-DATE   AVAILABLE   AGE
drover-agent   1/1     1            1           <age>

$ kubectl $EDGE get configmap hello -o jsonpath='{.data.color}{"\n"}'
red

$ kubectl wait -n edge manifestwork/forbidden --for=condition=Applied=False --timeout=60s
manifestwork.work.open-cluster-management.io/forbidden condition met

# What was never made holds nothing up.
$ kubectl delete -f forbidden.yaml --timeout=60s
manifestwork.work.open-cluster-management.io "forbidden" deleted...

$ kubectl apply -f forbidden.yaml
manifestwork.work.open-cluster-management.io/forbidden created

$ kubectl delete -f work.yaml
manifestwork.work.open-cluster-management.io "hello" deleted...

$ kubectl $EDGE get configmap hello 2>&1
Error from server (NotFound): configmaps "hello" not found
exit 1

# With the rights that the manifests give by default, add-ons run as well.
$ drover manifests agent --cluster-name edge --values agent.yaml | kubectl $EDGE apply -f -
...
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:drover-agent:execution-admin created
...

$ kubectl wait -n edge manifestwork/forbidden --for=condition=Applied --timeout=60s
manifestwork.work.open-cluster-management.io/forbidden condition met

$ kubectl delete -f forbidden.yaml
manifestwork.work.open-cluster-management.io "forbidden" deleted...

$ kubectl apply -f add-on.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworld created

$ drover addon enable --names helloworld --clusters edge
Deploying helloworld add-on to namespaces open-cluster-management-agent-addon of managed cluster: edge.

$ kubectl wait -n edge managedclusteraddon/helloworld --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworld condition met

$ kubectl get -n edge managedclusteraddons.v1beta1.addon.open-cluster-management.io/helloworld -o jsonpath='{.apiVersion}{"\n"}'
addon.open-cluster-management.io/v1beta1

$ drover addon disable --names helloworld
Undeploying helloworld add-on in managed cluster: edge.

# Who lets works contain anything says so.
$ kubectl $EDGE auth can-i create storageclasses --as system:serviceaccount:open-cluster-management-agent:drover-agent 2>/dev/null
no
exit 1

$ drover manifests agent --cluster-name edge --values agent.yaml --administrator | kubectl $EDGE apply -f -
...
clusterrolebinding.rbac.authorization.k8s.io/open-cluster-management:drover-agent:administrator created
...

$ kubectl $EDGE auth can-i create storageclasses --as system:serviceaccount:open-cluster-management-agent:drover-agent 2>/dev/null
yes

wait $ kubectl get managedclusteraddons,manifestworks -n edge -o name

# Another pod goes on where this one stops. Until it is ready nobody answers the API server's webhooks.
$ kubectl delete pods -n open-cluster-management-hub -l app=drover-hub
pod "drover-hub-..." deleted...

wait $ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/hello created

$ kubectl wait -n edge manifestwork/hello --for=condition=Available --timeout=60s
manifestwork.work.open-cluster-management.io/hello condition met

stop two

stop one
