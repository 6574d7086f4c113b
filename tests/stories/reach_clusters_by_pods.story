# A cluster is reached from the hub, with everything as pods by the manifests that come with the add-ons, on any Kubernetes: agents
# find the proxy servers by a host name (entry point Hostname).

file account.yaml
    apiVersion: authentication.open-cluster-management.io/v1beta1
    kind: ManagedServiceAccount
    metadata: {name: ci, namespace: cluster1}
    spec:
      rotation: {}

file clusterpermission.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: ci, namespace: cluster1}
    spec:
      clusterRoleBinding:
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
        subject: {apiGroup: authentication.open-cluster-management.io, kind: ManagedServiceAccount, name: ci}

start up $ drover up --clusters 1 --no-examples

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set HERE=-n open-cluster-management-cluster-proxy

$ for group in authentication rbac proxy; do kubectl apply -f $STORY_SOURCES/crds/$group.open-cluster-management.io_*.yaml; done
customresourcedefinition.apiextensions.k8s.io/managedserviceaccounts.authentication.open-cluster-management.io created
customresourcedefinition.apiextensions.k8s.io/clusterpermissions.rbac.open-cluster-management.io created
customresourcedefinition.apiextensions.k8s.io/managedproxyconfigurations.proxy.open-cluster-management.io created

$ kubectl wait crd --all --for=condition=Established --timeout=60s
...

$ for name in managed-serviceaccount cluster-permission cluster-proxy; do kubectl apply -k $STORY_SOURCES/addons/$name/deploy; done
...
deployment.apps/cluster-proxy-addon-user created
...

wait $ kubectl get deployments $HERE
NAME                          READY   UP-TO-DATE   AVAILABLE   AGE
cluster-proxy                 1/1     1            1           <age>
cluster-proxy-addon-manager   1/1     1            1           <age>
cluster-proxy-addon-user      1/1     1            1           <age>

# What stands for a load balancer here: the address of the machine, on which all of this is.
let USERS $ kubectl get pods $HERE -l component=cluster-proxy-addon-user -o jsonpath='{.items[0].status.podIP}'

$ kubectl patch managedproxyconfigurations cluster-proxy --type=merge -p "{\"spec\":{\"proxyServer\":{\"entrypoint\":{\"type\":\"Hostname\",\"hostname\":{\"value\":\"127.0.0.1\"}},\"additionalArgs\":[\"--agent-bind-address=127.0.0.1\"]},\"userServer\":{\"additionalSANs\":[\"$USERS\"]}}}"
managedproxyconfiguration.proxy.open-cluster-management.io/cluster-proxy patched

$ kubectl annotate managedproxyconfigurations cluster-proxy proxy.open-cluster-management.io/user-server-url=https://$USERS:9092
managedproxyconfiguration.proxy.open-cluster-management.io/cluster-proxy annotated

$ drover addon enable --names managed-serviceaccount,cluster-proxy --clusters cluster1
Deploying cluster-proxy add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.
Deploying managed-serviceaccount add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddons --all --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/cluster-proxy condition met
managedclusteraddon.addon.open-cluster-management.io/managed-serviceaccount condition met

$ kubectl apply -f account.yaml -f clusterpermission.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created
clusterpermission.rbac.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 clusterpermission/ci --for=condition=AppliedRBACManifestWork --timeout=60s
clusterpermission.rbac.open-cluster-management.io/ci condition met

wait $ drover proxy kubectl --cluster cluster1 --sa ci -- get namespace default -o name
namespace/default

$ drover proxy kubectl --cluster cluster1 --sa ci -- get secrets -A
Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:open-cluster-management-agent-addon:ci" cannot list resource "secrets" in API group "" at the cluster scope
exit 1

$ drover proxy kubeconfig --cluster cluster1 --sa ci --output ci.kubeconfig
wrote ci.kubeconfig

$ kubectl --kubeconfig=ci.kubeconfig auth whoami -o jsonpath='{.status.userInfo.username}{"\n"}'
system:serviceaccount:open-cluster-management-agent-addon:ci

start watching $ kubectl --kubeconfig=ci.kubeconfig get configmaps -n default --watch --no-headers

wait log watching
kube-root-ca.crt ...

$ kubectl --kubeconfig=.drover/cluster1.kubeconfig create configmap seen -n default
configmap/seen created

wait log watching
...
seen ...

kill watching

$ drover proxy health
CLUSTER NAME    INSTALLED    AVAILABLE    PROBED HEALTH    LATENCY
cluster1        True         True         True             <latency>

# A token of the hub is somebody of the hub on the cluster, whose rights are said there.
$ kubectl --kubeconfig=.drover/cluster1.kubeconfig create clusterrolebinding of-hub --clusterrole=view --user=cluster:hub:system:serviceaccount:default:default
clusterrolebinding.rbac.authorization.k8s.io/of-hub created

wait $ kubectl --kubeconfig=ci.kubeconfig --token="$(kubectl create token default -n default)" get namespace default -o name
namespace/default

stop up
