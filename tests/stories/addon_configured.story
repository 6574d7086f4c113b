# What an AddOnDeploymentConfig and the cluster's annotation say reaches the agent's Deployment, and the agent goes on.

file addon.yaml
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
      proxyConfig: {httpsProxy: "http://127.0.0.1:1", noProxy: "127.0.0.1,localhost"}
      resourceRequirements:
        - containerID: "deployments:helloworld-agent:*"
          resources: {requests: {memory: 16Mi}}

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f addon.yaml -f config.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworld created
addondeploymentconfig.addon.open-cluster-management.io/proxied created

$ drover addon enable --names helloworld --clusters cluster1
Deploying helloworld add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddon/helloworld --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworld condition met

$ kubectl patch managedclusteraddon -n cluster1 helloworld --type=merge -p '{"spec":{"configs":[{"group":"addon.open-cluster-management.io","resource":"addondeploymentconfigs","namespace":"default","name":"proxied"}]}}'
managedclusteraddon.addon.open-cluster-management.io/helloworld patched

wait $ kubectl $CLUSTER get deployment -n open-cluster-management-agent-addon helloworld-agent -o jsonpath='{range .spec.template.spec.containers[0].env[*]}{.name}={.value}{"\n"}{end}{.spec.template.spec.containers[0].resources}{"\n"}'
HTTPS_PROXY=http://127.0.0.1:1
NO_PROXY=127.0.0.1,localhost
{"requests":{"memory":"16Mi"}}

wait $ kubectl -n cluster1 get managedclusteraddon helloworld -o jsonpath='{range .status.conditions[?(@.type=="Progressing")]}{.status} {.reason}{"\n"}{end}'
False Completed

# The pod that has the proxy in its environment reaches the hub, which is on its own host.
wait $ kubectl $CLUSTER get deployment -n open-cluster-management-agent-addon helloworld-agent --no-headers
helloworld-agent   1/1   1     1     <age>

$ kubectl create configmap -n cluster1 hello --from-literal=value=proxied
configmap/hello created

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon hello -o jsonpath='{.data.value}{"\n"}'
proxied

# A mirror of the cluster's own: the add-on follows although nothing else has changed.
$ kubectl annotate managedcluster cluster1 open-cluster-management.io/image-registries='{"registries":[{"source":"quay.io/open-cluster-management","mirror":"mirror.example.com/ocm"}]}'
managedcluster.cluster.open-cluster-management.io/cluster1 annotated

wait $ kubectl $CLUSTER get deployment -n open-cluster-management-agent-addon helloworld-agent -o jsonpath='{.spec.template.spec.containers[0].image}{"\n"}'
mirror.example.com/ocm/addon-examples:latest

stop up
