# A ConfigurationPolicy that the hub does not bring is evaluated as well, and with one more add-on its cluster fills in
# what it looks up on the hub.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: ConfigurationPolicy
    metadata: {name: own, namespace: open-cluster-management-policies}
    spec:
      remediationAction: enforce
      severity: low
      object-templates:
      - complianceType: musthave
        objectDefinition:
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: own, namespace: default}
          data:
            cluster: '{{hub .ManagedClusterName hub}}'
            color: '{{hub fromConfigMap "shared" "palette" "color" hub}}'

file said.sh
    #!/bin/bash
    # What the policy says, without the beginning of what a template engine says.
    kubectl --kubeconfig=.drover/cluster1.kubeconfig get configurationpolicy -n open-cluster-management-policies own -o jsonpath='{.status.compliant} {.status.compliancyDetails[0].conditions[0].message}' | sed 's/failed to resolve.*error calling/.../'

$ drover up --addons governance-standalone-hub-templating
error: --addons governance-standalone-hub-templating: it runs inside config-policy-controller, so name both: --addons config-policy-controller,governance-standalone-hub-templating
exit 1

start up $ drover up --clusters 1 --addons config-policy-controller

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl create namespace shared && kubectl create configmap -n shared palette --from-literal=color=red
namespace/shared created
configmap/palette created

$ kubectl --kubeconfig=.drover/cluster1.kubeconfig create namespace open-cluster-management-policies && kubectl --kubeconfig=.drover/cluster1.kubeconfig apply -f policy.yaml
namespace/open-cluster-management-policies created
configurationpolicy.policy.open-cluster-management.io/own created

wait $ bash said.sh
NonCompliant the governance-standalone-hub-templating addon must be enabled to resolve hub templates on the managed cluster

# The add-on is an identity on the hub, for which the controller starts anew.
$ kubectl apply -f $STORY_SOURCES/addons/policy-framework/deploy/clustermanagementaddons.yaml 2>/dev/null | grep standalone
clustermanagementaddon.addon.open-cluster-management.io/governance-standalone-hub-templating created

$ drover addon enable --names governance-standalone-hub-templating --clusters cluster1
Deploying governance-standalone-hub-templating add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddons --all --for=condition=Available --timeout=90s
managedclusteraddon.addon.open-cluster-management.io/config-policy-controller condition met
managedclusteraddon.addon.open-cluster-management.io/governance-standalone-hub-templating condition met

# It may read ManagedClusters, and for more its group is given a role.
wait $ bash said.sh | grep -o 'NonCompliant.*palette.*shared'
NonCompliant ...palette...shared

let GROUP $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get secret -n open-cluster-management-agent-addon governance-standalone-hub-templating-info -o jsonpath='{.data.hub\.group}' | base64 --decode

$ echo $GROUP
system:open-cluster-management:cluster:cluster1:addon:governance-standalone-hub-templating

$ kubectl create role palette -n shared --verb=get,list,watch --resource=configmaps && kubectl create rolebinding palette -n shared --role=palette --group=$GROUP
role.rbac.authorization.k8s.io/palette created
rolebinding.rbac.authorization.k8s.io/palette created

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get configmap own -o jsonpath='{.data}'
{"cluster":"cluster1","color":"red"}

$ kubectl patch configmap -n shared palette --type merge -p '{"data": {"color": "blue"}}'
configmap/palette patched

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get configmap own -o jsonpath='{.data.color}'
blue

# Without it hub templates are not filled in any more.
$ drover addon disable --names governance-standalone-hub-templating --clusters cluster1
Undeploying governance-standalone-hub-templating add-on in managed cluster: cluster1.

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get deployment -n open-cluster-management-agent-addon config-policy-controller -o yaml | grep -c standalone
0
exit 1

stop up
