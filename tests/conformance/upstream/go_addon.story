# Upstream's own example of an add-on, written on its addon-framework: its manager works on our hub, and its agent runs as a pod
# of our cluster, let in by our agent. Nothing of it knows of Drover.

file helloworld.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: helloworld}
    spec:
      addOnMeta: {displayName: helloworld}
      supportedConfigs:
        - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs}

file config.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata: {name: proxied, namespace: default}
    spec:
      proxyConfig: {httpProxy: "http://127.0.0.1:1", noProxy: "127.0.0.1,localhost"}

# The arguments of its containers begin with the name of the program in the image; and a process of the host finds its account
# in $KUBECONFIG and not where a container has it.
let PROGRAM $ command -v go-helloworld

$ printf 'shift\nexec %s "$@" --kubeconfig "$KUBECONFIG"\n' "$PROGRAM" > helloworld.sh

let HERE $ pwd

start up $ drover up --clusters 1 --no-examples --node-image-map "quay.io/open-cluster-management/addon-examples=bash $HERE/helloworld.sh"

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f helloworld.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworld created

start manager $ go-helloworld controller --kubeconfig .drover/hub.kubeconfig --component-namespace default --addon-manager-namespace default

$ kubectl apply -f config.yaml
addondeploymentconfig.addon.open-cluster-management.io/proxied created

$ drover addon enable --names helloworld --clusters cluster1
Deploying helloworld add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl patch managedclusteraddon -n cluster1 helloworld --type=merge -p '{"spec":{"configs":[{"group":"addon.open-cluster-management.io","resource":"addondeploymentconfigs","namespace":"default","name":"proxied"}]}}'
managedclusteraddon.addon.open-cluster-management.io/helloworld patched

wait $ kubectl get managedclusteraddon -n cluster1 helloworld -o jsonpath='{range .status.conditions[?(@.status=="True")]}{.type}{"\n"}{end}' | grep -v Available | sort
ClusterCertificateRotated
Configured
ManifestApplied
RegistrationApplied

# The configuration has reached the agent's Deployment.
wait $ kubectl $CLUSTER get deployment -n open-cluster-management-agent-addon helloworld-agent -o jsonpath='{.spec.template.spec.containers[0].env[0].name}={.spec.template.spec.containers[0].env[0].value}{"\n"}'
HTTP_PROXY=http://127.0.0.1:1

$ kubectl $CLUSTER get secrets -n open-cluster-management-agent-addon -o name
secret/helloworld-hub-kubeconfig

# The manager and the agent both insist on port 8443 of their host, which here is the same one: so now it is the agent's turn.
stop manager

# The agent's Lease, renewed by the agent itself.
wait $ kubectl $CLUSTER get lease -n open-cluster-management-agent-addon helloworld -o name
lease.coordination.k8s.io/helloworld

# What it does: ConfigMaps of the cluster's namespace on the hub come to the cluster.
$ kubectl create configmap greeting -n cluster1 --from-literal=hello=world
configmap/greeting created

wait $ kubectl $CLUSTER get configmap greeting -n open-cluster-management-agent-addon -o jsonpath='{.data.hello}{"\n"}'
world

# And it goes.
$ kubectl delete managedclusteraddon -n cluster1 helloworld --timeout=120s
managedclusteraddon.addon.open-cluster-management.io "helloworld" deleted...

wait $ kubectl $CLUSTER get deployments,secrets -n open-cluster-management-agent-addon -o name

$ kubectl delete clustermanagementaddon helloworld --timeout=120s
clustermanagementaddon.addon.open-cluster-management.io "helloworld" deleted

wait $ kubectl get manifestworks,managedclusteraddons -A -o name

stop up
