# An add-on that is all Go and knows nothing of Drover: its manager on the hub and its agent on the cluster are programs on
# client-go and controller-runtime, and meet Drover at the API alone. It is let in by a certificate of Kubernetes and by one
# of a signer of its own, configured, judged by its Lease, and leaves nothing behind.

file offer.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: global, namespace: default}
    spec: {clusterSet: global}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec:
      clusterSets: [global]
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata: {name: greetings, namespace: default}
    spec:
      customizedVariables: [{name: GREETING, value: hello}]
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: go-addon}
    spec:
      addOnMeta: {displayName: go-addon}
      supportedConfigs:
      - group: addon.open-cluster-management.io
        resource: addondeploymentconfigs
        defaultConfig: {name: greetings, namespace: default}
      installStrategy:
        type: Placements
        placements: [{name: everywhere, namespace: default}]

let GO $ command -v go-clients

start up $ drover up --clusters 2 --node-image-map "example.com/go-addon=$GO *"

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

start manager $ go-clients addon-manager --kubeconfig .drover/hub.kubeconfig

$ kubectl apply -f offer.yaml
managedclustersetbinding.cluster.open-cluster-management.io/global created
placement.cluster.open-cluster-management.io/everywhere created
addondeploymentconfig.addon.open-cluster-management.io/greetings created
clustermanagementaddon.addon.open-cluster-management.io/go-addon created

# Installed where the placement says, configured, and available because its Lease says so.
wait $ kubectl get managedclusteraddons -A
NAMESPACE   NAME       AVAILABLE   DEGRADED   PROGRESSING
cluster1    go-addon   True                   False
cluster2    go-addon   True                   False

$ kubectl get managedclusteraddon -n cluster1 go-addon -o jsonpath='{range .status.conditions[?(@.type=="RegistrationApplied")]}{.status} {.reason}{"\n"}{end}{range .status.conditions[?(@.type=="Configured")]}{.status} {.reason}{"\n"}{end}{range .status.conditions[?(@.type=="ManifestApplied")]}{.status} {.reason}{"\n"}{end}{range .status.conditions[?(@.type=="ClusterCertificateRotated")]}{.status} {.reason}{"\n"}{end}{range .status.conditions[?(@.type=="Available")]}{.status} {.reason}{"\n"}{end}{range .status.conditions[?(@.type=="Progressing")]}{.status} {.reason}{"\n"}{end}'
True SetPermissionApplied
True ConfigurationsConfigured
True AddonManifestApplied
True ClientCertificateUpdated
True ManagedClusterAddOnLeaseUpdated
False Completed

$ kubectl get clustermanagementaddon go-addon -o jsonpath='{range .status.installProgressions[*].conditions[*]}{.type} {.status} {.reason}{"\n"}{end}'
Progressing False Completed

$ kubectl get csr -l open-cluster-management.io/addon-name=go-addon,open-cluster-management.io/cluster-name=cluster1 --sort-by .spec.signerName --no-headers
addon-cluster1-go-addon-...   <age>   go-addon.example.com/client   system:open-cluster-management:cluster1:...   Approved,Issued
addon-cluster1-go-addon-...   <age>   kubernetes.io/kube-apiserver-client   system:open-cluster-management:cluster1:...   Approved,Issued

$ kubectl $CLUSTER get secrets,leases,deployments,pods -n open-cluster-management-agent-addon -o name
secret/go-addon-go-addon.example.com-client-client-cert
secret/go-addon-hub-kubeconfig
lease.coordination.k8s.io/go-addon
deployment.apps/go-addon-agent
pod/go-addon-agent-...

wait $ kubectl get managedclusters -l feature.open-cluster-management.io/addon-go-addon=available -o name
managedcluster.cluster.open-cluster-management.io/cluster1
managedcluster.cluster.open-cluster-management.io/cluster2

$ drover why managedclusteraddon cluster1/go-addon
managedclusteraddon/cluster1/go-addon waits for nothing.

# It does what it is for.
$ kubectl create configmap -n cluster1 one --from-literal=a=b
configmap/one created

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon one -o jsonpath='{.data.a} {.metadata.annotations.greeting} {.metadata.annotations.subject}{"\n"}'
b hello CN=go-addon,O=go by go-addon.example.com/client

$ kubectl patch configmap -n cluster1 one --type=merge -p '{"data":{"a":"c"}}'
configmap/one patched

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon one -o jsonpath='{.data.a}{"\n"}'
c

# Another configuration reaches the agent, which is started anew with it.
$ kubectl patch addondeploymentconfig -n default greetings --type=merge -p '{"spec":{"customizedVariables":[{"name":"GREETING","value":"good morning"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/greetings patched

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon one -o jsonpath='{.metadata.annotations.greeting}{"\n"}'
good morning

wait $ kubectl get clustermanagementaddon go-addon -o jsonpath='{range .status.installProgressions[*].conditions[*]}{.status} {.message}{"\n"}{end}'
False selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.

# Manager and agents are away, and come back to what they left.
stop manager

$ kubectl $CLUSTER delete pods -n open-cluster-management-agent-addon --all
pod "go-addon-agent-..." deleted...

start again $ go-clients addon-manager --kubeconfig .drover/hub.kubeconfig

$ kubectl delete configmap -n cluster1 one
configmap "one" deleted...

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon one 2>&1
Error from server (NotFound): configmaps "one" not found
exit 1

$ kubectl create configmap -n cluster1 two --from-literal=a=b
configmap/two created

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon two -o jsonpath='{.data.a}{"\n"}'
b

# Offered no longer, it is gone from everywhere.
$ kubectl delete clustermanagementaddon go-addon
clustermanagementaddon.addon.open-cluster-management.io "go-addon" deleted

wait $ kubectl get managedclusteraddons,manifestworks,roles,rolebindings -n cluster1 -l '!open-cluster-management.io/cluster-name' -o name

wait $ kubectl $CLUSTER get deployments,pods,secrets,leases,roles,rolebindings,configmaps -n open-cluster-management-agent-addon --field-selector metadata.name!=kube-root-ca.crt -o name

wait $ kubectl get managedclusters -l feature.open-cluster-management.io/addon-go-addon -o name

stop again

stop up
