# The walk-through of the founding documents: the add-on `helloworld`, put on a cluster by hand. Its agent is let into the
# hub, really runs, copies ConfigMaps and says that it lives; then everything goes again.

file clustermanagementaddon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: helloworld
    spec:
      addOnMeta:
        displayName: helloworld

file managedclusteraddon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ManagedClusterAddOn
    metadata:
      name: helloworld
      namespace: cluster1
    spec:
      installNamespace: default

file configmap.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: helloworld
      namespace: cluster1
    data:
      value: helloworld

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f clustermanagementaddon.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworld created

$ kubectl apply -f managedclusteraddon.yaml
managedclusteraddon.addon.open-cluster-management.io/helloworld created

$ kubectl wait -n cluster1 managedclusteraddon/helloworld --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworld condition met

wait $ kubectl get managedclusteraddon -A
NAMESPACE   NAME         AVAILABLE   DEGRADED   PROGRESSING
cluster1    helloworld   True                   False

# The hub's manager made a work of the add-on's manifests.
$ kubectl -n cluster1 get manifestworks
NAME                         AGE
addon-helloworld-deploy-0    <age>

# How its agent is let in. (kubectl prefers v1beta1; the founding documents show v1alpha1.)
$ kubectl -n cluster1 get managedclusteraddons.v1alpha1.addon.open-cluster-management.io helloworld -o jsonpath='{.status.namespace}{"\n"}{range .status.registrations[*]}{.signerName}{"\n"}{.subject.user}{"\n"}{range .subject.groups[*]}{@}{"\n"}{end}{end}'
default
kubernetes.io/kube-apiserver-client
system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:...
system:open-cluster-management:cluster:cluster1:addon:helloworld
system:open-cluster-management:addon:helloworld

$ kubectl get csr -l open-cluster-management.io/addon-name=helloworld --no-headers
addon-cluster1-helloworld-...   <age>   kubernetes.io/kube-apiserver-client   system:open-cluster-management:cluster1:...   Approved,Issued

$ kubectl -n cluster1 get managedclusteraddons.v1beta1.addon.open-cluster-management.io helloworld -o jsonpath='{range .status.registrations[*]}{.type} {.kubeClient.driver} {.kubeClient.subject.user}{"\n"}{end}'
kubeClient csr system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:...

# What happened, in its own words.
$ kubectl -n cluster1 get managedclusteraddons helloworld -o jsonpath='{range .status.conditions[?(@.type=="RegistrationApplied")]}{.status} {.reason} {.message}{"\n"}{end}{range .status.conditions[?(@.type=="ManifestApplied")]}{.status} {.reason} {.message}{"\n"}{end}{range .status.conditions[?(@.type=="ClusterCertificateRotated")]}{.status} {.reason} {.message}{"\n"}{end}{range .status.conditions[?(@.type=="Available")]}{.status} {.reason} {.message}{"\n"}{end}'
True SetPermissionApplied Registration of the addon agent is configured
True AddonManifestApplied manifests of addon are applied successfully
True ClientCertificateUpdated client certificate rotated starting from ... UTC to ... UTC
True ManagedClusterAddOnLeaseUpdated helloworld add-on is available.

# On the cluster.
$ kubectl $CLUSTER get clusterrolebindings helloworld-addon
NAME               ROLE                           AGE
helloworld-addon   ClusterRole/...   <age>

wait $ kubectl $CLUSTER -n default get deploy
NAME               READY   UP-TO-DATE   AVAILABLE   AGE
helloworld-agent   1/1     1            1           <age>

$ kubectl $CLUSTER -n default get pods
NAME                                READY   STATUS    RESTARTS   AGE
helloworld-agent-...   1/1     Running   0          <age>

$ kubectl $CLUSTER -n default get sa helloworld-agent-sa -o name
serviceaccount/helloworld-agent-sa

$ kubectl $CLUSTER -n default get secrets helloworld-hub-kubeconfig -o go-template='{{range $key, $value := .data}}{{$key}}{{"\n"}}{{end}}'
cluster-name
kubeconfig
tls.crt
tls.key

$ kubectl $CLUSTER -n default get leases helloworld -o name
lease.coordination.k8s.io/helloworld

# The cluster tells that it has it, so that placements can ask for it.
wait $ kubectl get managedcluster cluster1 -o jsonpath='{.metadata.labels.feature\.open-cluster-management\.io/addon-helloworld}{"\n"}'
available

# It does what it is for: a ConfigMap in the cluster's namespace on the hub comes to the cluster, follows, and goes.
$ kubectl apply -f configmap.yaml
configmap/helloworld created

wait $ kubectl $CLUSTER -n default get configmap helloworld -o jsonpath='{.data.value} {.metadata.labels}{"\n"}'
helloworld {"synced-from-hub":""}

$ kubectl -n cluster1 patch configmap helloworld --type=merge -p '{"data":{"value":"changed"}}'
configmap/helloworld patched

wait $ kubectl $CLUSTER -n default get configmap helloworld -o jsonpath='{.data.value}{"\n"}'
changed

$ kubectl -n cluster1 delete configmap helloworld
configmap "helloworld" deleted...

wait $ kubectl $CLUSTER -n default get configmap helloworld 2>&1
Error from server (NotFound): configmaps "helloworld" not found
exit 1

# Nothing is waited for, and its agent may do on the hub what it needs and no more.
$ drover why managedclusteraddon cluster1/helloworld
managedclusteraddon/cluster1/helloworld waits for nothing.

$ kubectl auth can-i list configmaps -n cluster1 --as=system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:x --as-group=system:open-cluster-management:cluster:cluster1:addon:helloworld --as-group=system:authenticated
yes

$ kubectl auth can-i list configmaps -n cluster2 --as=system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:x --as-group=system:open-cluster-management:cluster:cluster1:addon:helloworld --as-group=system:authenticated
no
exit 1

$ kubectl auth can-i list secrets -n cluster1 --as=system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:x --as-group=system:open-cluster-management:cluster:cluster1:addon:helloworld --as-group=system:authenticated
no
exit 1

# Taken off the cluster, it leaves nothing behind: no work, no role, no agent, no credential, no label.
$ kubectl -n cluster1 delete managedclusteraddon helloworld
managedclusteraddon.addon.open-cluster-management.io "helloworld" deleted...

wait $ kubectl -n cluster1 get manifestworks,managedclusteraddons,roles,rolebindings -l '!open-cluster-management.io/cluster-name' -o name

wait $ kubectl $CLUSTER -n default get deploy,pods,secrets,leases -o name

wait $ kubectl get managedclusters -l feature.open-cluster-management.io/addon-helloworld -o name

stop up
