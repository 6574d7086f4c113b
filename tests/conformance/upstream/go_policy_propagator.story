# Upstream's own propagator with our agents on the cluster: what it copies, they bring; what they say, it sums up.
# Embedded only: the propagator is a pod, and there is no kubelet elsewhere.

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

# Its ports are on its own address only: on all of them they would be those of other pods.
file propagator.sh
    exec env -u KUBECONFIG go-policy-propagator "$@" --health-probe-bind-address=$POD_ADDRESS:8081 --metrics-bind-address=$POD_ADDRESS:8383

start up $ drover up --clusters 1 --no-examples --node-image-map "quay.io/open-cluster-management/governance-policy-propagator=bash $PWD/propagator.sh"

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ drover install hub-addon --names governance-policy-framework --create-namespace
Installing built-in governance-policy-framework add-on to the Hub cluster...
...

wait $ kubectl get deployments -n open-cluster-management | grep governance
governance-policy-addon-controller   1/1     1            1           <age>
governance-policy-propagator         1/1     1            1           <age>

# It is Go's: its log says so.
$ kubectl logs -n open-cluster-management deployment/governance-policy-propagator | grep -c 'controller-runtime\|Starting Controller\|Starting manager' | sed 's/^[1-9].*/some/'
some

$ drover addon enable --names governance-policy-framework,config-policy-controller --clusters cluster1
Deploying config-policy-controller add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.
Deploying governance-policy-framework add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddons --all --for=condition=Available --timeout=90s
managedclusteraddon.addon.open-cluster-management.io/config-policy-controller condition met
managedclusteraddon.addon.open-cluster-management.io/governance-policy-framework condition met

$ kubectl apply -f policy.yaml -o name
policy.policy.open-cluster-management.io/team
secret/password
managedclustersetbinding.cluster.open-cluster-management.io/global
placement.cluster.open-cluster-management.io/everywhere
placementbinding.policy.open-cluster-management.io/team

wait $ kubectl get policies -n default team -o jsonpath='{.status.compliant}{"\n"}'
Compliant

# What it encrypts, ours decrypts.
$ kubectl $CLUSTER get configmap settings -o jsonpath='{.data.cluster} {.data.word}{"\n"}'
cluster1 dG9wc2VjcmV0

stop up
