# A cluster is reached from the hub: by kubectl, by curl, with the rights that the hub gives.
# Embedded only: `up --addons` is of a hub and clusters in one process.

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

file edit.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: edit, namespace: cluster1}
    spec:
      clusterRoleBinding:
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
        subject: {apiGroup: authentication.open-cluster-management.io, kind: ManagedServiceAccount, name: ci}

file exposed.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: cluster-proxy-exposed-services, namespace: open-cluster-management-cluster-proxy}
    data:
      services: |
        - {namespace: default, service: nothing}

file through.sh
    #!/bin/bash
    # What the user-server answers to a path: the body, and the code.
    url=$(kubectl get managedproxyconfigurations cluster-proxy -o jsonpath='{.metadata.annotations.proxy\.open-cluster-management\.io/user-server-url}')
    kubectl get secret -n open-cluster-management-cluster-proxy cluster-proxy-user-serving-cert -o jsonpath='{.data.ca\.crt}' | base64 -d > ca.crt
    curl --silent --cacert ca.crt --path-as-is "${@:2}" --write-out '%{http_code}\n' "$url$1"

start up $ drover up --clusters 2 --addons managed-serviceaccount,cluster-permission,cluster-proxy

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl apply -f account.yaml -f clusterpermission.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created
clusterpermission.rbac.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 managedserviceaccount/ci --for=condition=TokenReported --timeout=60s
managedserviceaccount.authentication.open-cluster-management.io/ci condition met

$ kubectl wait -n cluster1 clusterpermission/ci --for=condition=AppliedRBACManifestWork --timeout=60s
clusterpermission.rbac.open-cluster-management.io/ci condition met

wait $ drover proxy kubectl --cluster cluster1 --sa ci -- get pods -A --no-headers
open-cluster-management-agent-addon     managed-serviceaccount-addon-agent-<id>   1/1   Running   0   <age>
open-cluster-management-cluster-proxy   cluster-proxy-proxy-agent-<id>   3/3   Running   0   <age>

# Its rights are those on the cluster, and kubectl's answer is ours.
$ drover proxy kubectl --cluster cluster1 --sa ci -- get secrets -A
Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:open-cluster-management-agent-addon:ci" cannot list resource "secrets" in API group "" at the cluster scope
exit 1

# Plain kubectl, with a kubeconfig that nobody else may read.
$ drover proxy kubeconfig --cluster cluster1 --sa ci --output ci.kubeconfig && stat -c %a ci.kubeconfig
wrote ci.kubeconfig
600

$ kubectl --kubeconfig=ci.kubeconfig auth whoami -o jsonpath='{.status.userInfo.username}{"\n"}'
system:serviceaccount:open-cluster-management-agent-addon:ci

$ drover proxy health
CLUSTER NAME    INSTALLED    AVAILABLE    PROBED HEALTH    LATENCY
cluster1        True         True         True             <latency>
cluster2        True         True         True             <latency>

# What is streamed or upgraded goes through, too.
$ kubectl apply -f edit.yaml && kubectl wait -n cluster1 clusterpermission/edit --for=condition=AppliedRBACManifestWork --timeout=60s
clusterpermission.rbac.open-cluster-management.io/edit created
clusterpermission.rbac.open-cluster-management.io/edit condition met

start watching $ kubectl --kubeconfig=ci.kubeconfig get configmaps -n default --watch --no-headers

wait log watching
kube-root-ca.crt ...

$ kubectl --kubeconfig=.drover/cluster1.kubeconfig create configmap seen -n default
configmap/seen created

wait log watching
...
seen ...

set AGENT=--kubeconfig=ci.kubeconfig -n open-cluster-management-cluster-proxy

$ kubectl $AGENT logs deployment/cluster-proxy-proxy-agent -c proxy-agent | grep -c 'connected to a server of the tunnel'
1

$ kubectl $AGENT exec deployment/cluster-proxy-proxy-agent -c proxy-agent -- /proxy-agent --help | head -1
Open the tunnel from a cluster to its hub

start forward $ kubectl $AGENT port-forward deployment/cluster-proxy-proxy-agent 23461:8000

wait $ curl -s --max-time 10 http://127.0.0.1:23461/readyz
ok

kill forward

kill watching

# A token of the hub is somebody of the hub on the cluster.
$ bash through.sh /cluster1/api/v1/namespaces -H "Authorization: Bearer $(kubectl create token default -n default)" | grep -o 'User \\"[^ ]*'
User \"cluster:hub:system:serviceaccount:default:default\"

# Who is nobody, and what is nowhere.
$ bash through.sh /cluster1/api/v1/namespaces
authentication failed: token is neither valid for managed cluster nor hub cluster
401

$ bash through.sh /cluster9/healthz
proxy to anp-proxy-server failed because ...No agent available
502

$ bash through.sh /cluster1/../cluster2/healthz
requestURL format not correct...
400

# Services are closed until somebody opens them.
$ bash through.sh /cluster1/api/v1/namespaces/default/services/http:nothing:80/proxy-service/
service default/nothing is not in the exposed services allowlist
403

$ kubectl apply -f exposed.yaml
configmap/cluster-proxy-exposed-services created

wait $ bash through.sh /cluster1/api/v1/namespaces/default/services/http:nothing:80/proxy-service/ | tail -1
502

$ kubectl delete -f exposed.yaml
configmap "cluster-proxy-exposed-services" deleted

wait $ bash through.sh /cluster1/api/v1/namespaces/default/services/http:nothing:80/proxy-service/ | tail -1
403

# Another authority: agents ask for other certificates, and the tunnel is back.
let before $ kubectl get secret -n open-cluster-management-cluster-proxy cluster-proxy-signer -o jsonpath='{.data.ca\.crt}' | sha256sum

$ kubectl delete secret -n open-cluster-management-cluster-proxy cluster-proxy-signer
secret "cluster-proxy-signer" deleted

wait $ test "$(kubectl get secret -n open-cluster-management-cluster-proxy cluster-proxy-user-serving-cert -o jsonpath='{.data.ca\.crt}' | sha256sum)" != "$before" && echo another
another

wait $ drover proxy kubectl --cluster cluster1 --sa ci -- get namespace default -o name
namespace/default

# Nobody is reached with rights that were taken.
$ drover proxy kubeconfig --cluster cluster1 --sa ci --output ci.kubeconfig
wrote ci.kubeconfig

$ kubectl delete managedserviceaccount -n cluster1 ci
managedserviceaccount.authentication.open-cluster-management.io "ci" deleted

wait $ kubectl --kubeconfig=ci.kubeconfig get namespaces 2>&1 | grep -c Unauthorized
1

stop up
