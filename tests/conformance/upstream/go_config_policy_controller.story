# Upstream's own config-policy-controller beside our policy framework: it evaluates what ours brings to the cluster, and ours takes back
# what it says.
# Embedded only: the controller is a pod, and there is no kubelet elsewhere.

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: team, namespace: default}
    spec:
      disabled: false
      remediationAction: enforce
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: ConfigurationPolicy
          metadata: {name: settings}
          spec:
            remediationAction: inform
            object-templates:
            - complianceType: musthave
              objectDefinition:
                apiVersion: v1
                kind: ConfigMap
                metadata: {name: settings, namespace: default}
                data: {cluster: '{{hub .ManagedClusterName hub}}', word: '{{hub fromSecret "" "password" "word" hub}}'}
    ---
    apiVersion: v1
    kind: Secret
    metadata: {name: password, namespace: default}
    stringData: {word: topsecret}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: global, namespace: default}
    spec: {clusterSet: global}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec: {}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: team, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: everywhere}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: team}

start up $ drover up --clusters 1 --addons governance-policy-framework,config-policy-controller --node-image-map 'quay.io/open-cluster-management/config-policy-controller=env -u KUBECONFIG go-config-policy-controller'

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl wait -n cluster1 managedclusteraddons --all --for=condition=Available --timeout=90s
managedclusteraddon.addon.open-cluster-management.io/config-policy-controller condition met
managedclusteraddon.addon.open-cluster-management.io/governance-policy-framework condition met

# It is Go's: its log says so.
$ kubectl $CLUSTER logs -n open-cluster-management-agent-addon deployment/config-policy-controller | grep -c 'controller-runtime\|Starting manager\|Starting Controller' | sed 's/^[1-9].*/some/'
some

$ kubectl apply -f policy.yaml -o name
policy.policy.open-cluster-management.io/team
secret/password
managedclustersetbinding.cluster.open-cluster-management.io/global
placement.cluster.open-cluster-management.io/everywhere
placementbinding.policy.open-cluster-management.io/team

wait $ kubectl get policies -n default team -o jsonpath='{.status.compliant}{"\n"}'
Compliant

# What the hub encrypts, it decrypts.
$ kubectl $CLUSTER get configmap settings -o jsonpath='{.data.cluster} {.data.word}{"\n"}'
cluster1 dG9wc2VjcmV0

wait $ kubectl get policy -n cluster1 default.team -o jsonpath='{.status.details[0].history[0].message}{"\n"}'
Compliant; notification - configmaps [settings] found as specified in namespace default

$ kubectl $CLUSTER patch configmap settings --type=merge -p '{"data": {"cluster": "mine"}}'
configmap/settings patched

wait $ kubectl $CLUSTER get configmap settings -o jsonpath='{.data.cluster}{"\n"}'
cluster1

stop up
