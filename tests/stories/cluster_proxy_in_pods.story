# cluster-proxy as pods on the hub, by the manifests that come with it: what these allow is all it needs. Agents come in through
# the hub's API server (entry point PortForward), and everything finds each other by the names of Services.
# Embedded only: the manager, the proxy servers, the user-server and the agents are pods, and there is no kubelet elsewhere.

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

file profile.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: ocm-tls-profile, namespace: open-cluster-management-cluster-proxy}
    data:
      minTLSVersion: VersionTLS13

start up $ drover up --clusters 1 --addons managed-serviceaccount,cluster-permission --feature-gates ClusterProfile=true

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set HERE=-n open-cluster-management-cluster-proxy

$ kubectl apply -f $STORY_SOURCES/crds/proxy.open-cluster-management.io_managedproxyconfigurations.yaml
customresourcedefinition.apiextensions.k8s.io/managedproxyconfigurations.proxy.open-cluster-management.io created

$ kubectl apply -k $STORY_SOURCES/addons/cluster-proxy/deploy
...
deployment.apps/cluster-proxy-addon-user created
...

wait $ kubectl get deployments $HERE
NAME                          READY   UP-TO-DATE   AVAILABLE   AGE
cluster-proxy                 1/1     1            1           <age>
cluster-proxy-addon-manager   1/1     1            1           <age>
cluster-proxy-addon-user      1/1     1            1           <age>

$ kubectl get managedproxyconfigurations cluster-proxy -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}{"\n"}{end}'
ProxyServerDeployed=True SuccessfullyDeployed
ProxyServerSecretSigned=True SuccessfullySigned
AgentServerSecretSigned=True SuccessfullySigned
UserServerSecretSigned=True SuccessfullySigned

# On every cluster.
$ kubectl apply -f $STORY_SOURCES/addons/cluster-proxy/deploy/everywhere.yaml
clustermanagementaddon.addon.open-cluster-management.io/cluster-proxy configured
managedclustersetbinding.cluster.open-cluster-management.io/global created
placement.cluster.open-cluster-management.io/cluster-proxy-placement created

wait $ kubectl wait -n cluster1 managedclusteraddon/cluster-proxy --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/cluster-proxy condition met

$ kubectl apply -f account.yaml -f clusterpermission.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created
clusterpermission.rbac.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 clusterpermission/ci --for=condition=AppliedRBACManifestWork --timeout=60s
clusterpermission.rbac.open-cluster-management.io/ci condition met

wait $ drover proxy kubectl --cluster cluster1 --sa ci -- get namespace default -o name
namespace/default

$ drover proxy health
CLUSTER NAME    INSTALLED    AVAILABLE    PROBED HEALTH    LATENCY
cluster1        True         True         True             <latency>

# There is no way to it from here but through this process.
$ drover proxy kubeconfig --cluster cluster1 --sa ci
error: the user-server is reached by this process alone: ...
exit 1

# The way in is told to programs that look for clusters.
wait $ kubectl get clusterprofiles -A -o jsonpath='{.items[*].status.accessProviders[0].cluster.server}{"\n"}'
https://cluster-proxy-addon-user.open-cluster-management-cluster-proxy:9092/cluster1

# A change of the configuration reaches certificates and servers.
$ kubectl patch managedproxyconfigurations cluster-proxy --type=merge -p '{"spec":{"authentication":{"signer":{"selfSigned":{"additionalSANs":["tunnel.example.com"]}}},"proxyServer":{"replicas":2}}}'
managedproxyconfiguration.proxy.open-cluster-management.io/cluster-proxy patched

wait $ kubectl get secret $HERE agent-server -o jsonpath='{.data.tls\.crt}' | base64 -d | openssl x509 -noout -ext subjectAltName | grep -o tunnel.example.com
tunnel.example.com

$ kubectl get secret $HERE cluster-proxy-signer -o jsonpath='{.data.ca\.crt}' | base64 -d > ca.crt; kubectl get secret $HERE agent-server -o jsonpath='{.data.tls\.crt}' | base64 -d > server.crt; openssl verify -CAfile ca.crt server.crt
server.crt: OK

wait $ kubectl get deployment $HERE cluster-proxy -o jsonpath='{.spec.template.spec.containers[0].args[0]} {.metadata.annotations.proxy\.open-cluster-management\.io/configuration-generation} {.status.readyReplicas}{"\n"}'
--server-count=2 2 2

# Both servers have an agent, so that it does not matter by which a request comes.
wait $ for pod in $(kubectl get pods $HERE -l proxy.open-cluster-management.io/component-name=proxy-server -o jsonpath='{.items[*].status.podIP}'); do curl -s http://$pod:8092/readyz; echo; done
ok
ok

# One of them goes, and requests go on.
$ kubectl delete $(kubectl get pods $HERE -l proxy.open-cluster-management.io/component-name=proxy-server -o name | head -1) $HERE
pod "cluster-proxy-<id>" deleted...

wait $ drover proxy kubectl --cluster cluster1 --sa ci -- get namespace default -o name
namespace/default

# What servers accept.
$ kubectl apply -f profile.yaml
configmap/ocm-tls-profile created

wait $ kubectl get deployment $HERE cluster-proxy -o jsonpath='{.spec.template.spec.containers[0].args}' | grep -o 'tls-min-version=[A-Za-z0-9]*'
tls-min-version=VersionTLS13

let USER_SERVER $ kubectl get pods $HERE -l component=cluster-proxy-addon-user -o jsonpath='{.items[0].status.podIP}'

wait $ curl -s --insecure --tls-max 1.2 https://$USER_SERVER:9092/ ; echo $?
35

$ curl -s --insecure https://$USER_SERVER:9092/ ; echo $?
requestURL format not correct, path more than 2: /
0

stop up
