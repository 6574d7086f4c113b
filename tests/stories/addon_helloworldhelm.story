# The walk-through of the founding documents: the add-on `helloworldhelm`, whose manifests are a Helm chart, with a job that
# cleans up before it goes.

file clustermanagementaddon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: helloworldhelm
    spec:
      addOnMeta:
        description: helloworldhelm is an example addon created by helm chart
        displayName: helloworldhelm
      installStrategy:
        type: Manual
      supportedConfigs:
      - group: addon.open-cluster-management.io
        resource: addondeploymentconfigs
      - group: ""
        resource: configmaps

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f clustermanagementaddon.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworldhelm created

$ drover addon enable --names helloworldhelm --namespace open-cluster-management-agent-addon --clusters cluster1
Deploying helloworldhelm add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddon/helloworldhelm --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworldhelm condition met

$ kubectl get managedclusteraddons.v1alpha1.addon.open-cluster-management.io -n cluster1 helloworldhelm -o jsonpath='{.metadata.finalizers[*]}{"\n"}{range .metadata.ownerReferences[*]}{.kind} {.name} {.controller}{"\n"}{end}{.spec.installNamespace}{"\n"}{.status.namespace}{"\n"}{range .status.supportedConfigs[*]}{.group}/{.resource}{"\n"}{end}'
addon.open-cluster-management.io/addon-pre-delete
ClusterManagementAddOn helloworldhelm true
open-cluster-management-agent-addon
open-cluster-management-agent-addon
...

$ kubectl get manifestwork -n cluster1
NAME                            AGE
addon-helloworldhelm-deploy-0   <age>

wait $ kubectl $CLUSTER get deployments.apps -n open-cluster-management-agent-addon
NAME                   READY   UP-TO-DATE   AVAILABLE   AGE
helloworldhelm-agent   1/1     1            1           <age>

$ kubectl $CLUSTER get secret -n open-cluster-management-agent-addon helloworldhelm-hub-kubeconfig -o jsonpath='{.type}{"\n"}'
Opaque

$ kubectl create configmap -n cluster1 hello --from-literal=value=helm
configmap/hello created

wait $ kubectl $CLUSTER get configmap -n open-cluster-management-agent-addon hello -o jsonpath='{.data.value}{"\n"}'
helm

$ drover addon list
NAME             CLUSTER    AVAILABLE   DEGRADED   PROGRESSING   AGE
helloworldhelm   cluster1   True                   False         <age>

# Before it goes, its job removes what it copied.
$ drover addon disable --names helloworldhelm --clusters cluster1
Undeploying helloworldhelm add-on in managed cluster: cluster1.

wait $ kubectl get managedclusteraddons,manifestworks -A -o name

$ kubectl $CLUSTER get configmaps -n open-cluster-management-agent-addon -l synced-from-hub -o name

stop up
