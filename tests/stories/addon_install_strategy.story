# The walk-through of the founding documents: an add-on that goes to the clusters of a placement, which chooses them by a
# claim; its configuration changes; and the add-on goes from everywhere with its ClusterManagementAddOn.

file clustermanagementaddon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: helloworld
      annotations:
        addon.open-cluster-management.io/lifecycle: "addon-manager"
    spec:
      addOnMeta:
        displayName: helloworld
      supportedConfigs:
        - group: addon.open-cluster-management.io
          resource: addondeploymentconfigs
      installStrategy:
        type: Placements
        placements:
          - name: placement-aws
            namespace: default
            configs:
              - group: addon.open-cluster-management.io
                resource: addondeploymentconfigs
                name: deploy-config
                namespace: open-cluster-management
            rolloutStrategy:
              type: Progressive
              progressive:
                maxConcurrency: 25%

file placement.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata:
      name: global
      namespace: default
    spec:
      clusterSet: global
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata:
      name: placement-aws
      namespace: default
    spec:
      predicates:
        - requiredClusterSelector:
            claimSelector:
              matchExpressions:
                - key: platform.open-cluster-management.io
                  operator: In
                  values:
                    - aws

file deploy-config.yaml
    apiVersion: v1
    kind: Namespace
    metadata:
      name: open-cluster-management
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata:
      name: deploy-config
      namespace: open-cluster-management
    spec:
      agentInstallNamespace: hello

file claim.yaml
    apiVersion: cluster.open-cluster-management.io/v1alpha1
    kind: ClusterClaim
    metadata:
      name: platform.open-cluster-management.io
    spec:
      value: aws

start up $ drover up --clusters 3

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl apply -f deploy-config.yaml -f placement.yaml -f clustermanagementaddon.yaml
...
clustermanagementaddon.addon.open-cluster-management.io/helloworld created

# Two clusters say that they are at aws.
$ kubectl --kubeconfig .drover/cluster1.kubeconfig apply -f claim.yaml
clusterclaim.cluster.open-cluster-management.io/platform.open-cluster-management.io created

$ kubectl --kubeconfig .drover/cluster3.kubeconfig apply -f claim.yaml
clusterclaim.cluster.open-cluster-management.io/platform.open-cluster-management.io created

wait $ kubectl get managedclusteraddon -A
NAMESPACE   NAME         AVAILABLE   DEGRADED   PROGRESSING
cluster1    helloworld   True                   False
cluster3    helloworld   True                   False

$ kubectl get placementdecisions -n default -l cluster.open-cluster-management.io/placement=placement-aws -o jsonpath='{range .items[*].status.decisions[*]}{.clusterName}{"\n"}{end}'
cluster1
cluster3

# With the configuration of the placement.
$ kubectl get managedclusteraddon -A -o jsonpath='{range .items[*]}{.metadata.namespace} {.status.namespace} {range .status.configReferences[*]}{.desiredConfig.namespace}/{.desiredConfig.name}{end} {.status.conditions[?(@.type=="Configured")].reason}{"\n"}{end}'
cluster1 hello open-cluster-management/deploy-config ConfigurationsConfigured
cluster3 hello open-cluster-management/deploy-config ConfigurationsConfigured

wait $ kubectl get clustermanagementaddon helloworld -o jsonpath='{range .status.installProgressions[*]}{.name} {.conditions[?(@.type=="Progressing")].reason} {.conditions[?(@.type=="Progressing")].message}{"\n"}{end}'
placement-aws Completed selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.

$ drover why clustermanagementaddon helloworld
clustermanagementaddon/helloworld waits for nothing.

# The configuration changes: every cluster gets it, one at a time.
$ kubectl patch addondeploymentconfig -n open-cluster-management deploy-config --type=merge -p '{"spec":{"customizedVariables":[{"name":"A","value":"b"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/deploy-config patched

wait $ kubectl get managedclusteraddon -A -o go-template='{{range .items}}{{range .status.configReferences}}{{if eq .desiredConfig.specHash .lastAppliedConfig.specHash}}applied{{"\n"}}{{end}}{{end}}{{end}}'
applied
applied

# A cluster that is no longer at aws loses it.
$ kubectl --kubeconfig .drover/cluster3.kubeconfig delete clusterclaim platform.open-cluster-management.io
clusterclaim.cluster.open-cluster-management.io "platform.open-cluster-management.io" deleted...

wait $ kubectl get managedclusteraddon -A -o name
managedclusteraddon.addon.open-cluster-management.io/helloworld

# The root of it all is deleted, and everything goes.
$ kubectl delete clustermanagementaddon helloworld
clustermanagementaddon.addon.open-cluster-management.io "helloworld" deleted...

wait $ kubectl get managedclusteraddons,manifestworks -A -o name

wait $ kubectl --kubeconfig .drover/cluster1.kubeconfig get deploy,pods -A -o name

stop up
