# A changed configuration reaches the clusters of an add-on the way its rollout strategy says: the canaries first, the others
# when these have been well for long enough, and one group after the other.

file everything.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata: {name: config, namespace: default}
    spec: {agentInstallNamespace: hello}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: waves, namespace: default}
    spec:
      decisionStrategy:
        groupStrategy:
          decisionGroups:
            - groupName: canary
              groupClusterSelector: {labelSelector: {matchLabels: {env: canary}}}
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata: {name: helloworld}
    spec:
      supportedConfigs:
        - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs}
      installStrategy:
        type: Placements
        placements:
          - name: waves
            namespace: default
            configs:
              - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, name: config, namespace: default}
            rolloutStrategy: {type: All}

file progressive.json
    [{"op": "replace", "path": "/spec/installStrategy/placements/0/rolloutStrategy", "value": {"type": "Progressive", "progressive": {"maxConcurrency": 2, "minSuccessTime": "1h", "mandatoryDecisionGroups": [{"groupName": "canary"}]}}}]

file impatient.json
    [{"op": "replace", "path": "/spec/installStrategy/placements/0/rolloutStrategy/progressive/minSuccessTime", "value": "0s"}]

file groups.json
    [{"op": "replace", "path": "/spec/installStrategy/placements/0/rolloutStrategy", "value": {"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "1h"}}}]

start up $ drover up --clusters 3

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set HASHES={range .items[*]}{.metadata.namespace} {.status.configReferences[0].lastAppliedConfig.specHash}{"\n"}{end}

$ kubectl label managedcluster cluster3 env=canary
managedcluster.cluster.open-cluster-management.io/cluster3 labeled

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

$ kubectl apply -f everything.yaml
...

wait $ kubectl get clustermanagementaddon helloworld -o jsonpath='{range .status.installProgressions[*].conditions[?(@.type=="Progressing")]}{.reason} {.message}{end}'
Completed selected clusters 3. configured addons 3/3 completed with no errors, 0 failed 0 timeout.

let FIRST $ kubectl get managedclusteraddon -n cluster1 helloworld -o jsonpath='{.status.configReferences[0].lastAppliedConfig.specHash}'

# All: everywhere at once.
$ kubectl patch addondeploymentconfig config --type=merge -p '{"spec":{"customizedVariables":[{"name":"A","value":"1"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/config patched

wait $ kubectl get managedclusteraddons -A -o jsonpath="$HASHES" | sed -E "s/$FIRST/first/; s/[0-9a-f]{64}/second/"
cluster1 second
cluster2 second
cluster3 second

let SECOND $ kubectl get managedclusteraddon -n cluster1 helloworld -o jsonpath='{.status.configReferences[0].lastAppliedConfig.specHash}'

# Progressive: the canaries, and then nobody before they have been well for an hour.
$ kubectl patch clustermanagementaddon helloworld --type=json --patch-file progressive.json
clustermanagementaddon.addon.open-cluster-management.io/helloworld patched

$ kubectl patch addondeploymentconfig config --type=merge -p '{"spec":{"customizedVariables":[{"name":"A","value":"2"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/config patched

wait $ kubectl get managedclusteraddons -A -o jsonpath="$HASHES" | sed -E "s/$SECOND/second/; s/[0-9a-f]{64}/third/"
cluster1 second
cluster2 second
cluster3 third

wait $ kubectl get clustermanagementaddon helloworld -o jsonpath='{range .status.installProgressions[*].conditions[?(@.type=="Progressing")]}{.reason} {.message}{end}'
Progressing selected clusters 3. configured addons 1/3 progressing..., 0 failed 0 timeout.

$ drover why managedclusteraddon/cluster1/helloworld
Its new configuration waits for its turn in the rollout of placement default/waves: ...

# An hour is too long: the others follow.
$ kubectl patch clustermanagementaddon helloworld --type=json --patch-file impatient.json
clustermanagementaddon.addon.open-cluster-management.io/helloworld patched

wait $ kubectl get managedclusteraddons -A -o jsonpath="$HASHES" | sed -E "s/$SECOND/second/; s/[0-9a-f]{64}/third/"
cluster1 third
cluster2 third
cluster3 third

let THIRD $ kubectl get managedclusteraddon -n cluster1 helloworld -o jsonpath='{.status.configReferences[0].lastAppliedConfig.specHash}'

# One group after the other: the canaries are a group, and the others the next one.
$ kubectl patch clustermanagementaddon helloworld --type=json --patch-file groups.json
clustermanagementaddon.addon.open-cluster-management.io/helloworld patched

$ kubectl patch addondeploymentconfig config --type=merge -p '{"spec":{"customizedVariables":[{"name":"A","value":"3"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/config patched

wait $ kubectl get managedclusteraddons -A -o jsonpath="$HASHES" | sed -E "s/$THIRD/third/; s/[0-9a-f]{64}/fourth/"
cluster1 third
cluster2 third
cluster3 fourth

# Taking the change back leaves nobody behind.
$ kubectl patch addondeploymentconfig config --type=merge -p '{"spec":{"customizedVariables":[{"name":"A","value":"2"}]}}'
addondeploymentconfig.addon.open-cluster-management.io/config patched

wait $ kubectl get managedclusteraddons -A -o jsonpath="$HASHES" | sed -E "s/$THIRD/third/; s/[0-9a-f]{64}/fourth/"
cluster1 third
cluster2 third
cluster3 third

stop up
